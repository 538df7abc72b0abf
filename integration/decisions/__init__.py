"""What a model would say, without sampling: the probability of each text of a finite grammar, and exact draws among them.

    decide(model, tokenizer, "Is the sky blue? Answer yes or no.", ["yes", "no"]).probabilities   # {'yes': 0.93, 'no': 0.07}

Read in this order:

    tree            the tokens that spell the texts, place by place
    scorer          a model's probabilities after each of them, many places in one pass
    distribution    the walk: from the tree and the probabilities to those of whole texts, and draws
    decide          questions with few answers: choices, predicates, scores

Masking draws each token from what the grammar allows, which is not the model's distribution among the texts of the grammar: a beginning
that the model likes is taken even where no likely text has it (Park et al. 2024, Grammar-Aligned Decoding). The walk adds up the
probabilities of whole texts, each over all the ways to cut it into tokens (Vieira et al. 2024, From Language Models over Tokens to
Characters), so that draws by these are exact. It takes grammars with few texts.
"""

from .decide import NO, YES, Decider, Decision, Tokenizations, conclude, decide
from .distribution import Distribution

__all__ = ["NO", "YES", "Decider", "Decision", "Distribution", "Tokenizations", "conclude", "decide"]
