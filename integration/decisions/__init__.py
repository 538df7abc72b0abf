"""A model's answer without sampling: the probability of each text of a finite grammar, and exact draws among them.

    decide(model, tokenizer, "Is the sky blue? Answer yes or no.", ["yes", "no"]).probabilities   # {'yes': 0.93, 'no': 0.07}

Read in this order:

    tree            the token tree that spells the texts
    scorer          a model's probabilities after each of them, many places in one pass
    distribution    the walk: from token probabilities to probabilities of whole texts, and draws
    decide          questions with few answers: choices, predicates, scores

Masked sampling draws each token among those that the grammar allows. That distorts the model's distribution over the texts of the grammar:
a prefix that the model likes is chosen even if no likely text begins with it (Park et al. 2024, Grammar-Aligned Decoding). The walk adds up
the probability of each text over all ways to cut it into tokens (Vieira et al. 2024, From Language Models over Tokens to
Characters), so draws by these probabilities are exact. It needs a grammar with few texts.
"""

from .decide import NO, YES, Decider, Decision, Tokenizations, conclude, decide
from .distribution import Distribution

__all__ = ["NO", "YES", "Decider", "Decision", "Distribution", "Tokenizations", "conclude", "decide"]
