"""The synthetic corpus of the demo model: chats about small records, made from word lists and a seeded generator.

Each chat is one question and one answer. The tasks are those that show a grammar at work on a model of half a million weights:
write a record as JSON, repeat or edit a JSON document that stands in the question (so that drafts looked up in the prompt are accepted),
put a sentence into JSON and back, call a tool, and answer with a date, an address, an expression or one word.
A share of names and values is made of random syllables, so that copying has to be learnt as copying.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator

Record = dict[str, object]
Chat = list[dict[str, object]]


def words(text: str, separator: str | None = None) -> list[str]:
    """A list of words."""
    return text.split(separator)


FIRST = words("""Anna Ben Clara David Emma Felix Greta Hugo Ida Jonas Kate Leo Maria Noah Olga Paul Rosa Sam Tara Victor Alice Bruno Carmen
Dylan Elena Frank Grace Henry Irene Jack Laura Mark Nina Oscar Petra Ruth Simon Tom Vera Yusuf Amir Chloe Diego Fatima Hiro Ivan Julia
Kenji Lena Mei Omar Priya Rahul Sofia Wei Zoe""")
LAST = words("""Keller Brown Silva Novak Rossi Meyer Tanaka Lopez Martin Khan Smith Jones Weber Costa Dubois Petrov Larsen Kim Chen Patel
Garcia Moreau Fischer Walker Young King Hill Green Baker Adams Clark Lewis Wood Stone Berg Lind Santos Ferrari Nakamura Singh""")
CITIES = {
    "Lisbon": "Portugal", "Berlin": "Germany", "Paris": "France", "Oslo": "Norway", "Madrid": "Spain", "Rome": "Italy",
    "Vienna": "Austria", "Prague": "Czechia", "Dublin": "Ireland", "London": "England", "Tokyo": "Japan", "Kyoto": "Japan",
    "Lima": "Peru", "Cairo": "Egypt", "Delhi": "India", "Seoul": "Korea", "Boston": "USA", "Denver": "USA", "Austin": "USA",
    "Toronto": "Canada", "Sydney": "Australia", "Nairobi": "Kenya", "Zurich": "Switzerland", "Porto": "Portugal", "Munich": "Germany",
    "Milan": "Italy", "Bergen": "Norway", "Lyon": "France",
}  # fmt: skip
JOBS = words("baker teacher nurse engineer painter farmer driver lawyer singer writer doctor cook chemist pilot student designer")
HOBBIES = words("chess tennis reading cooking hiking music painting running sailing gardening dancing swimming cycling yoga")
PRODUCTS = words("lamp chair table bottle notebook pencil backpack camera keyboard mug blanket umbrella clock knife bicycle phone")
COLORS = words("red blue green yellow black white orange purple grey brown")
STREETS = words("Main Oak River Park Lake Hill Station Church Garden Mill")
COMPANIES = words("Acme Nordwind Blueleaf Sunrise Granite Harbor Maple Quantum Redwood Silverline")
DOMAINS = words("example.com mail.org acme.io post.net")
TITLES = words(
    "Team meeting,Book club,Product launch,Spring concert,Yoga class,City tour,Code review,Family dinner,Chess night,Art fair", ","
)
BOOKS = words(
    "The Silent River,A Garden of Stars,Winter in Oslo,The Last Train,Salt and Stone,The Blue House,Paper Moons,Northern Light", ","
)
GENRES = words("novel mystery history poetry science travel")
TAGS = words("new sale urgent home work small large summer winter daily public")
WEATHER = words("sunny cloudy rainy windy snowy foggy")
GOOD = words("I love it,great quality,works perfectly,very happy with it,fast and friendly,the best I have had", ",")
BAD = words("I hate it,poor quality,it broke at once,very unhappy with it,slow and rude,a waste of money", ",")
MEH = words("it is okay,nothing special,does what it says,neither good nor bad", ",")
SYLLABLES = words("ba ko ri mu ta len vi so dar ne po lu gi fa zor hem wi cas ty ran jo bel qua xi dre")

STYLES = ("", "indented ", "compact ")
"""How a document is written, as the word before "JSON" says: on one line, indented by two, or without blanks."""


class Corpus:
    """An endless stream of chats from one seed.

    >>> [message["role"] for message in Corpus(1).chat()]
    ['user', 'assistant']
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.kinds: dict[str, Callable[[], Record]] = {
            "person": self.person,
            "address": self.address,
            "product": self.product,
            "order": self.order,
            "event": self.event,
            "book": self.book,
            "weather report": self.weather,
            "user": self.user,
            "company": self.company,
            "note": self.note,
        }
        self.tasks: tuple[tuple[Callable[[], Chat], int], ...] = (
            (self.write, 30),
            (self.repeat, 24),
            (self.edit, 18),
            (self.extract, 10),
            (self.describe, 6),
            (self.answer, 12),
            (self.call_tool, 5),
            (self.think, 3),
        )

    def __iter__(self) -> Iterator[Chat]:
        while True:
            yield self.chat()

    def chat(self) -> Chat:
        """One question with its answer."""
        tasks, weights = zip(*self.tasks, strict=True)
        task: Callable[[], Chat] = self.random.choices(tasks, weights)[0]
        return task()

    # Words

    def pick(self, words: list[str]) -> str:
        """One of these words, or now and then a word that nobody has seen."""
        return self.made_up().capitalize() if words[0][0].isupper() and self.random.random() < 0.15 else self.random.choice(words)

    def made_up(self) -> str:
        """A word of random syllables."""
        return "".join(self.random.choices(SYLLABLES, k=self.random.randint(2, 4)))

    def name(self) -> str:
        """First and last name."""
        return f"{self.pick(FIRST)} {self.pick(LAST)}"

    def email(self, name: str) -> str:
        """The address that belongs to a name: the first name alone, which is as much as the model can keep in mind."""
        return f"{name.lower().split(' ')[0]}@{self.random.choice(DOMAINS)}"

    def phone(self) -> str:
        """A telephone number."""
        return f"+{self.random.randint(1, 99)} {self.random.randint(100, 999)} {self.random.randint(1000, 9999)}"

    def date(self) -> str:
        """A calendar date."""
        return f"20{self.random.randint(10, 29)}-{self.random.randint(1, 12):02}-{self.random.randint(1, 28):02}"

    def time(self) -> str:
        """A time of day."""
        return f"{self.random.randint(7, 21):02}:{self.random.choice((0, 15, 30, 45)):02}"

    def price(self) -> float:
        """An amount of money."""
        return self.random.randint(1, 199) + self.random.choice((0.5, 0.99, 0.25, 0.95))

    def some(self, words: list[str], low: int = 1, high: int = 4) -> list[str]:
        """A few different words."""
        return self.random.sample(words, self.random.randint(low, high))

    def style(self) -> str:
        """A style of JSON."""
        return self.random.choices(STYLES, (4, 4, 2))[0]

    # Records

    def person(self) -> Record:
        """A person; the order of the keys and the optional ones vary."""
        name = self.name()
        city = self.pick(list(CITIES))
        fields: Record = {"name": name, "age": self.random.randint(18, 80), "city": city, "email": self.email(name)}
        if self.random.random() < 0.3:
            first, last = name.split(" ", 1)
            fields = {"first_name": first, "last_name": last, "age": self.random.randint(18, 80), "email": self.email(name), "city": city}
        extra: Record = {
            "phone": self.phone(),
            "job": self.random.choice(JOBS),
            "hobbies": self.some(HOBBIES),
            "married": self.random.random() < 0.5,
            "birthday": f"19{self.random.randint(50, 99)}-{self.random.randint(1, 12):02}-{self.random.randint(1, 28):02}",
            "address": self.address(),
            "country": CITIES.get(city, "Norway"),
            "id": self.random.randint(100, 9999),
        }
        return self.vary(fields, extra, 3)

    def address(self) -> Record:
        """A postal address."""
        city = self.random.choice(list(CITIES))
        street = f"{self.random.choice(STREETS)} Street"
        return {"street": f"{self.random.randint(1, 99)} {street}", "city": city, "zip": f"{self.random.randint(10000, 99999)}"} | (
            {"country": CITIES[city]} if self.random.random() < 0.5 else {}
        )

    def product(self) -> Record:
        """An article of a shop."""
        fields: Record = {"name": self.random.choice(PRODUCTS), "price": self.price(), "color": self.random.choice(COLORS)}
        extra: Record = {
            "id": self.random.randint(100, 9999),
            "in_stock": self.random.random() < 0.7,
            "quantity": self.random.randint(1, 40),
            "tags": self.some(TAGS),
            "rating": self.random.randint(1, 5),
            "description": f"A {self.random.choice(COLORS)} {self.random.choice(PRODUCTS)} for {self.random.choice(HOBBIES)}.",
        }
        return self.vary(fields, extra, 3)

    def order(self) -> Record:
        """An order with its items and their sum."""
        items = [
            {"product": self.random.choice(PRODUCTS), "quantity": self.random.randint(1, 5), "price": self.price()}
            for _ in range(self.random.randint(1, 3))
        ]
        fields: Record = {"id": self.random.randint(1000, 9999), "customer": self.name(), "items": items}
        extra: Record = {
            "total": round(sum(float(item["price"]) * int(item["quantity"]) for item in items), 2),  # type: ignore[arg-type, call-overload]
            "paid": self.random.random() < 0.5,
            "date": self.date(),
            "status": self.random.choice(["open", "paid", "shipped", "done"]),
            "note": None if self.random.random() < 0.5 else f"Call {self.random.choice(FIRST)} first.",
        }
        return self.vary(fields, extra, 3)

    def event(self) -> Record:
        """A calendar entry."""
        fields: Record = {"title": self.pick(TITLES), "date": self.date(), "location": self.pick(list(CITIES))}
        extra: Record = {
            "start": self.time(),
            "end": self.time(),
            "attendees": [self.name() for _ in range(self.random.randint(1, 3))],
            "public": self.random.random() < 0.5,
            "priority": self.random.choice(["low", "medium", "high"]),
        }
        return self.vary(fields, extra, 3)

    def book(self) -> Record:
        """A book."""
        fields: Record = {"title": self.pick(BOOKS), "author": self.name(), "year": self.random.randint(1900, 2025)}
        extra: Record = {
            "genre": self.random.choice(GENRES),
            "pages": self.random.randint(80, 900),
            "isbn": f"978-{self.random.randint(10**9, 10**10 - 1)}",
            "tags": self.some(TAGS),
        }
        return self.vary(fields, extra, 3)

    def weather(self) -> Record:
        """A weather report."""
        return {
            "city": self.pick(list(CITIES)),
            "date": self.date(),
            "temperature": self.random.randint(-10, 38),
            "weather": self.random.choice(WEATHER),
            "wind": self.random.randint(0, 90),
        }

    def user(self) -> Record:
        """An account."""
        name = self.name()
        fields: Record = {"id": self.random.randint(1, 9999), "username": name.split(" ")[0].lower(), "email": self.email(name)}
        extra: Record = {
            "active": self.random.random() < 0.7,
            "role": self.random.choice(["admin", "editor", "guest"]),
            "created": f"{self.date()}T{self.time()}:00Z",
            "url": f"https://{self.random.choice(DOMAINS)}/{name.split(' ')[0].lower()}",
            "uuid": f"{self.random.getrandbits(32):08x}-{self.random.getrandbits(16):04x}-4{self.random.getrandbits(12):03x}-"
            f"a{self.random.getrandbits(12):03x}-{self.random.getrandbits(48):012x}",
            "settings": {"theme": self.random.choice(["dark", "light"]), "language": self.random.choice(["en", "de", "fr"])},
        }
        return self.vary(fields, extra, 3)

    def company(self) -> Record:
        """A company with its people."""
        people = [{"name": self.name(), "job": self.random.choice(JOBS)} for _ in range(self.random.randint(1, 3))]
        return {"company": self.pick(COMPANIES), "city": self.pick(list(CITIES)), "employees": people}

    def note(self) -> Record:
        """Unforeseen keys with simple values, sometimes nested."""
        record: Record = {}
        for _ in range(self.random.randint(2, 5)):
            record[self.made_up()] = self.random.choice(
                (
                    self.made_up(),
                    self.random.randint(0, 999),
                    self.random.random() < 0.5,
                    None,
                    self.price(),
                    [self.made_up(), self.made_up()],
                )
            )
        if self.random.random() < 0.3:
            record[self.made_up()] = {self.made_up(): self.random.randint(0, 99), self.made_up(): self.made_up()}
        return record

    def vary(self, fields: Record, extra: Record, most: int) -> Record:
        """The fields and up to `most` of the extra ones, usually in the order given."""
        keys = list(fields) + self.random.sample(list(extra), self.random.randint(0, most))
        if self.random.random() < 0.3:
            self.random.shuffle(keys)
        return {key: (fields | extra)[key] for key in keys}

    def record(self) -> tuple[str, Record]:
        """A record of any kind and the kind's name."""
        kind = self.random.choice(list(self.kinds))
        return kind, self.kinds[kind]()

    def document(self) -> Record:
        """A record to be copied: more often than not one whose keys, or their order, nobody could guess."""
        return self.scrambled(self.note() if self.random.random() < 0.25 else self.record()[1])

    def scrambled(self, record: Record) -> Record:
        """The record, with its keys in another order more often than not, and sometimes without some of them."""
        keys = list(record)
        if self.random.random() < 0.6:
            self.random.shuffle(keys)
        if self.random.random() < 0.3:
            del keys[self.random.randint(1, len(keys)) :]
        return {key: record[key] for key in keys}

    # Tasks

    def write(self) -> Chat:
        """Make up a record of a kind, with the keys named in the question or not."""
        kind, record = self.record()
        question = self.random.choice(["Write {} as {}JSON", "Make up {} as {}JSON", "Give me {} as {}JSON"])
        keys = ""
        if self.random.random() < 0.7:
            record = self.scrambled(record)
            keys = f" with {', '.join(record)}"
        style = self.style()
        article = "an" if kind[0] in "aeo" else "a"
        if kind != "order" and self.random.random() < 0.1:
            plural = "people" if kind == "person" else "companies" if kind == "company" else f"{kind}s"
            records = [record, *(self.kinds[kind]() for _ in range(self.random.randint(1, 2)))]
            return said(f"Write a list of {plural} as {style}JSON.", show(records, style))
        return said(question.format(f"{article} {kind}", style) + keys + ".", show(record, style))

    def repeat(self) -> Chat:
        """Say the document of the question again."""
        document = show(self.document(), self.style())
        return said(f"{self.random.choice(['Repeat this JSON:', 'Copy this JSON:', 'Say this again:'])}\n{document}", document)

    def edit(self) -> Chat:
        """Say the document of the question again with one value changed."""
        record = self.document()
        style = self.style()
        key, old = self.random.choice(list(record.items()))
        new: object
        if isinstance(old, bool) or old is None:
            new = not old
        elif isinstance(old, int | float):
            new = self.random.randint(0, 999)
        elif isinstance(old, list):
            new = old[1:]
        else:
            new = self.random.choice((self.name(), self.made_up(), self.random.choice(list(CITIES)), self.date()))
        return said(f'Change "{key}" to {json.dumps(new)}:\n{show(record, style)}', show(record | {key: new}, style))

    def extract(self) -> Chat:
        """Put a sentence into JSON."""
        record, sentence = self.fact()
        return said(f"{self.random.choice(['Put this into JSON:', 'Extract JSON:'])} {sentence}", show(record, ""))

    def describe(self) -> Chat:
        """Tell in a sentence what JSON says."""
        record, sentence = self.fact()
        return said(f"Tell me about this: {show(record, self.style())}", sentence)

    def fact(self) -> tuple[Record, str]:
        """A record and the sentence that says the same."""
        name = self.name()
        city = self.pick(list(CITIES))
        age = self.random.randint(18, 80)
        job = self.random.choice(JOBS)
        hobby = self.random.choice(HOBBIES)
        product = self.random.choice(PRODUCTS)
        color = self.random.choice(COLORS)
        price = self.price()
        title = self.pick(TITLES)
        date = self.date()
        return self.random.choice(
            (
                ({"name": name, "age": age, "city": city}, f"{name} is {age} years old and lives in {city}."),
                ({"name": name, "job": job, "city": city}, f"{name} works as a {job} in {city}."),
                ({"name": name, "hobby": hobby, "email": self.email(name)}, f"{name} likes {hobby}. Write to {self.email(name)}."),
                ({"name": product, "color": color, "price": price}, f"The {color} {product} costs {price} euros."),
                ({"title": title, "date": date, "location": city}, f"{title} is on {date} in {city}."),
            )
        )

    def answer(self) -> Chat:
        """A short answer that is no JSON."""
        name = self.name()
        return self.random.choice(
            (
                lambda: said("Give me a date.", self.date()),
                lambda: said("Give me a time.", self.time()),
                lambda: said("Give me an email address.", self.email(name)),
                lambda: said("Give me a phone number.", self.phone()),
                lambda: said("Give me a name.", name),
                lambda: said("Give me a number.", str(self.random.randint(1, 999))),
                lambda: said("Give me a color.", self.random.choice(COLORS)),
                lambda: said("Give me a city.", self.pick(list(CITIES))),
                lambda: said("Write an expression.", self.expression(3)),
                lambda: said("Write a sentence.", self.fact()[1]),
                lambda: said("Write a story.", self.story()),
                lambda: said("Write a text that matches " + r"\d{4}-\d{2}-\d{2}.", self.date()),
                lambda: said("Write a text that matches " + r"[a-z.]+@[a-z.]+.", self.email(name)),
                lambda: said("Write a text that matches " + r"[A-Z][a-z]+ [A-Z][a-z]+.", name),
                lambda: said("Write a text that matches the grammar.", self.fact()[1]),
                self.choose,
                self.choose,
                self.judge,
                self.judge,
            )
        )()

    def judge(self) -> Chat:
        """Whether a review is positive, negative or neutral."""
        word, reviews = self.random.choice((("positive", GOOD), ("negative", BAD), ("neutral", MEH)))
        review = f"{self.random.choice(['About the', 'My'])} {self.random.choice(PRODUCTS)}: {self.random.choice(reviews)}."
        return said(f"Is this positive, negative or neutral? {review}", word)

    def choose(self) -> Chat:
        """One out of a few words."""
        words = self.some(self.random.choice((COLORS, JOBS, PRODUCTS, list(CITIES), HOBBIES)), 2, 5)
        return said(f"Choose one of: {', '.join(words)}.", self.random.choice(words))

    def expression(self, depth: int) -> str:
        """An arithmetic expression."""
        if depth == 0 or self.random.random() < 0.3:
            return str(self.random.randint(1, 99))
        text = f"{self.expression(depth - 1)} {self.random.choice('+-*/')} {self.expression(depth - 1)}"
        return f"({text})" if depth < 3 and self.random.random() < 0.5 else text

    def story(self) -> str:
        """Four plain sentences about one person."""
        first, city, hobby, product = (self.pick(words) for words in (FIRST, list(CITIES), HOBBIES, PRODUCTS))
        return (
            f"{first} lived in {city} and worked as a {self.random.choice(JOBS)}. Every morning {first} thought about {hobby}. "
            f"One {self.random.choice(WEATHER)} day a friend came with a {self.random.choice(COLORS)} {product}. "
            f"{first} was very happy and they talked about {hobby} until the evening."
        )

    def call_tool(self) -> Chat:
        """Call the one tool that fits the question, out of the two offered."""
        city, name, date = self.pick(list(CITIES)), self.name(), self.date()
        calls: list[tuple[str, dict[str, str], Record, str]] = [
            ("get_weather", {"city": "string"}, {"city": city}, f"How is the weather in {city}?"),
            ("get_time", {"city": "string"}, {"city": city}, f"What time is it in {city}?"),
            (
                "send_email",
                {"to": "string", "text": "string"},
                {"to": self.email(name), "text": "Hello!"},
                f"Say hello to {self.email(name)}.",
            ),
            ("find_person", {"name": "string"}, {"name": name}, f"Who is {name}?"),
            ("book_table", {"date": "string", "guests": "integer"}, {"date": date, "guests": 4}, f"Book a table for 4 on {date}."),
        ]
        (tool, _, arguments, question), other = self.random.sample(calls, 2)
        offered = [call for call in calls if call[0] in (tool, other[0])]
        tools = [
            {
                "type": "function",
                "function": {"name": n, "parameters": {"type": "object", "properties": {k: {"type": t} for k, t in p.items()}}},
            }
            for n, p, _, _ in offered
        ]
        answer = "<tool_call>" + json.dumps({"name": tool, "arguments": arguments}) + "</tool_call>"
        return [{"role": "system", "tools": tools}, *said(question, answer)]

    def think(self) -> Chat:
        """Any other task with a thought before the answer."""
        chat = self.random.choice((self.write, self.repeat, self.answer, self.extract))()
        thought = self.random.choice(["I look at the question.", "The answer must fit the form.", "I copy what is there.", "That is easy."])
        chat[-1]["content"] = f"<think>{thought}</think>{chat[-1]['content']}"
        return chat


def said(question: str, answer: str) -> Chat:
    """A chat of one question and one answer."""
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


def show(value: object, style: str) -> str:
    """JSON in one of the STYLES."""
    return json.dumps(value, indent=2 if style == "indented " else None, separators=(",", ":") if style == "compact " else None)
