"""Synthetic documents for a tiny question-answering model.

A document is a handful of short *modules* (city guide, profile, product sheet,
opening hours, recipe, timetable, trip plan) about random entities with random
values, and questions whose answers can only be read in the modules.  Nothing
can be memorised: names and values are drawn anew for every document.

Every fact is one sentence, "The ATTRIBUTE of ENTITY is VALUE.", and the answer
to a question repeats that sentence.  The words before the value then name what
is looked up, so that the answer is led to the value by them: an easy circuit for
a model of this size.
"""
import random
import zlib
from dataclasses import dataclass, field

import words as W

LOOKUP, PARAMETER, TWO_HOP, YESNO, REVERSE = "lookup", "parameter", "two-hop", "yes/no", "reverse"
KINDS_OF_QUESTION = (LOOKUP, PARAMETER, TWO_HOP, YESNO, REVERSE)


def held_out(name):
    """About one name in ten is kept for evaluation only."""
    return zlib.crc32(name.encode()) % 10 == 0


class Names:
    """Draws names of one split: 'train' never sees the held-out tenth, and
    'test' draws entity names only from it."""

    def __init__(self, rng, split):
        self.r, self.test = rng, split == "test"

    def pick(self, make):
        for _ in range(1000):
            n = make()
            if held_out(n) == self.test:
                return n
        return n

    def odd(self):
        """A word of no pool, in several tokens: so that tokens outside the pools are trained
        too."""
        r = self.r
        return "".join(r.choice(W.CONSONANT) + r.choice(W.VOWEL)
                       for _ in range(r.randint(2, 3))) + r.choice(["", "n", "s", "r"])

    def is_odd(self):
        return not self.test and self.r.random() < 0.08

    def syllables(self):
        return self.r.choice(W.START) + self.r.choice(W.END)

    def city(self):
        r = self.r
        if self.is_odd():
            return self.pick(lambda: self.odd().capitalize())
        if not self.test and r.random() < 0.3:
            return self.pick(lambda: r.choice(W.CITY))
        return self.pick(self.syllables)

    def pair(self, first, second):
        if self.is_odd():
            return self.pick(lambda: self.odd().capitalize() + " " + self.r.choice(second))
        return self.pick(lambda: self.r.choice(first) + " " + self.r.choice(second))

    def person(self):
        return self.pair(W.FIRST, W.LAST)

    def product(self):
        return self.pair(W.WORD, W.THING)

    def place(self):
        return self.pair(W.WORD, W.PLACE)

    def hotel(self):
        return self.pair(W.WORD, W.HOTEL)

    def recipe(self):
        return self.pair(W.FLAVOR, W.DISH)

    def train(self):
        return self.pair(W.WORD, W.TRAIN)


@dataclass
class Attr:
    """One attribute: "The {word} {prep} {e} is {value}{unit}." """
    word: str
    make: object                        # Names -> value
    ask: tuple = ()                     # further wordings of the question, {e} the entity
    unit: str = ""
    prep: str = "of"


@dataclass
class Kind:
    name: object                        # Names -> entity, None: the entity is fixed
    the: str                            # article of the entity inside a sentence
    heads: tuple                        # first sentence of a module
    attrs: list
    fixed: str = ""


def num(lo, hi, step=1):
    return lambda n: str(n.r.randrange(lo, hi + 1, step))


def one_of(pool):
    return lambda n: n.r.choice(pool)


KINDS = {
    "city":
    Kind(Names.city, "", ("City guide: {e}.", "Guide to {e}."), [
        Attr("hotel", Names.hotel, ("Which hotel is in {e}?", ), prep="in"),
        Attr("room", num(20, 400), ("How much is a room in {e}?", ), " euros", "in"),
        Attr("dish", one_of(W.FOOD), ("What do people eat in {e}?", ), prep="in"),
        Attr("weather", one_of(W.WEATHER), ("How is the weather in {e}?", ), prep="in"),
        Attr("tram", num(5, 95), ("How long is the tram in {e}?", ), " minutes", "in"),
    ]),
    "person":
    Kind(Names.person, "", ("Profile: {e}.", "Employee: {e}."), [
        Attr("job", one_of(W.JOB), ("Which job does {e} have?", )),
        Attr("desk", num(1, 999), ("Which desk does {e} use?", )),
        Attr("phone", num(100, 999), ("Which phone does {e} have?", )),
        Attr("team", one_of(W.TEAM), ("Which team is {e} in?", )),
        Attr("hobby", one_of(W.HOBBY), ("Which hobby does {e} have?", )),
        Attr("city", Names.city, ("Where does {e} live?", )),
    ]),
    "product":
    Kind(Names.product, "the ", ("Product: {e}.", "Product sheet: {e}."), [
        Attr("price", num(2, 999), ("How much is the {e}?", ), " dollars"),
        Attr("color", one_of(W.COLOR), ("Which color is the {e}?", )),
        Attr("weight", num(50, 990, 10), ("How heavy is the {e}?", ), " grams"),
        Attr("material", one_of(W.MATERIAL), ("Which material is the {e}?", )),
        Attr("warranty", num(3, 72), ("How long is the warranty of the {e}?", ), " months"),
    ]),
    "place":
    Kind(Names.place, "the ", ("Opening hours: {e}.", "Visitor notes: {e}."), [
        Attr("opening", num(5, 12), ("When does the {e} open?", )),
        Attr("closing", num(13, 23), ("When does the {e} close?", )),
        Attr("holiday", one_of(W.DAY), ("On which day is the {e} shut?", )),
        Attr("ticket", num(1, 60), ("How much is a ticket for the {e}?", ), " euros", "for"),
        Attr("guide", Names.person, ("Who is the guide of the {e}?", )),
    ]),
    "recipe":
    Kind(Names.recipe, "the ", ("Recipe: {e}.", "Recipe for {e}."), [
        Attr("heat", num(100, 300, 5), ("How hot is the oven for the {e}?", ), " degrees", "for"),
        Attr("time", num(5, 180), ("How long does the {e} cook?", ), " minutes", "for"),
        Attr("spice", one_of(W.SPICE), ("Which spice is in the {e}?", ), prep="in"),
        Attr("sugar", num(5, 500, 5), ("How much sugar is in the {e}?", ), " grams", "in"),
    ]),
    "train":
    Kind(Names.train, "the ", ("Timetable: {e}.", "Train: {e}."), [
        Attr("platform", num(1, 40), ("Which platform does the {e} use?", )),
        Attr("goal", Names.city, ("Where does the {e} go?", )),
        Attr("fare", num(3, 250), ("How much is a seat on the {e}?", ), " euros"),
        Attr("speed", num(60, 320, 5), ("How fast is the {e}?", ), " miles"),
    ]),
    "trip":
    Kind(None,
         "the ", ("Trip plan.", "Plan of the trip."), [
             Attr("length", num(2, 60),
                  ("How many days is the trip?", "How long is the trip?"), " days"),
             Attr("group", num(2, 90),
                  ("How many people are on the trip?", "How big is the group?"), " people"),
             Attr("budget", num(50, 990, 10), ("How much is the budget of the trip?", ), " euros"),
             Attr("leader", Names.person, ("Who is the leader of the trip?", )),
         ],
         fixed="trip"),
}
MAIN = [k for k in KINDS if k != "trip"]
LINKS = ("city", "goal")  # attributes whose value may be a city with a module of its own

SYSTEM = ("Answer from the notes.", "Use the notes to answer.", "Read the notes and answer.",
          "Answer briefly.", "Here are the notes.", "You are a helpful guide.",
          "Answer the question from the notes below.")


@dataclass
class Param:
    """A parameter: its argument (without a leading space) and how many reserved positions stay
    empty."""
    value: str
    spare: int


@dataclass
class Module:
    kind: str
    ent: str
    pieces: list = field(default_factory=list)          # str or Param, in order
    facts: dict = field(default_factory=dict)  # attribute word -> (Attr, value, is a parameter)

    def text(self):
        return "".join(p if isinstance(p, str) else p.value for p in self.pieces)


def statement(kind, ent, attr):
    """The sentence of a fact as (before the value, after it)."""
    return f"The {attr.word} {attr.prep} {KINDS[kind].the}{ent} is", f"{attr.unit}."


def write(m, r, p_param, join):
    """Fills in the pieces of a module from its facts; `join` stands between its sentences."""
    cur = r.choice(KINDS[m.kind].heads).format(e=m.ent)
    for word, (attr, v, _) in list(m.facts.items()):
        pre, post = statement(m.kind, m.ent, attr)
        if r.random() < p_param:
            m.facts[word] = (attr, v, True)
            m.pieces += [f"{cur}{join}{pre} ", Param(v, r.randint(0, 6))]
            cur = post
        else:
            cur += f"{join}{pre} {v}{post}"
    m.pieces.append(cur)


def make_module(r, names, kind, used, cities, p_param, facts, join):
    k = KINDS[kind]
    ent = k.fixed
    for _ in range(100 if k.name else 0):
        ent = k.name(names)
        if ent not in used:
            break
    used.add(ent)
    m = Module(kind, ent)
    for a in r.sample(k.attrs, min(r.randint(*facts), len(k.attrs))):
        linked = a.word in LINKS and cities and r.random() < 0.7
        m.facts[a.word] = (a, r.choice(cities) if linked else a.make(names), False)
    write(m, r, 0.5 if kind == "trip" else p_param, join)
    return m


# A piece of an answer: text, and whether it is an argument (tokenised apart, as the module has it).
def answer_of(m, word):
    attr, v, is_param = m.facts[word]
    pre, post = statement(m.kind, m.ent, attr)
    return [pre + " ", v, post] if is_param else [f"{pre} {v}{post}"]


@dataclass
class Question:
    kind: str
    text: str
    answer: list                                        # strings tokenised one by one

    def expect(self):
        return "".join(self.answer)


def lookup(r, m, word):
    attr, _, is_param = m.facts[word]
    the = KINDS[m.kind].the
    u = r.random()
    if attr.ask and u < 0.4:
        q = r.choice(attr.ask).format(e=m.ent)
    elif u < 0.47:
        q = f"Tell me the {word} {attr.prep} {the}{m.ent}."
    else:
        q = f"What is the {word} {attr.prep} {the}{m.ent}?"
    return Question(PARAMETER if is_param else LOOKUP, q, answer_of(m, word))


def yes_no(r, m, word):
    attr, v, _ = m.facts[word]
    w = v if r.random() < 0.5 else attr.make(Names(r, "train"))
    q = f"Is the {word} {attr.prep} {KINDS[m.kind].the}{m.ent} {w}{attr.unit}?"
    a = answer_of(m, word)
    return Question(YESNO, q, a[:-1] + [a[-1] + (" Yes." if w == v else " No.")])


def reverse(r, mods, m, word):
    attr, v, is_param = m.facts[word]
    same = sum(o.kind == m.kind and word in o.facts and o.facts[word][1] == v for o in mods)
    if same > 1 or is_param:                            # only when the value names one entity
        return None
    return Question(REVERSE, f"Which {m.kind} has the {word} {v}{attr.unit}?", answer_of(m, word))


def two_hop(r, mods, m, word):
    """A fact of the city that a fact of another module names; the answer says both."""
    attr, v, is_param = m.facts[word]
    city = next((o for o in mods if o.kind == "city" and o.ent == v), None)
    if word not in LINKS or city is None or is_param:
        return None
    second = r.choice(list(city.facts))
    a = city.facts[second][0]
    first, after = statement(m.kind, m.ent, attr)
    rest = answer_of(city, second)
    q = f"What is the {second} {a.prep} the {word} {attr.prep} {KINDS[m.kind].the}{m.ent}?"
    return Question(TWO_HOP, q, [f"{first} {v}{after} {rest[0]}"] + rest[1:])


def questions(r, mods, n, mix):
    """`n` questions about different facts; mix: shares of (yes/no, reverse, two-hop where there is
    a link)."""
    facts = [(m, w) for m in mods for w in m.facts]
    r.shuffle(facts)
    out = []
    for m, w in facts[:n]:
        u, q = r.random(), None
        if w in LINKS and r.random() < 5 * mix[2]:
            q = two_hop(r, mods, m, w)
        elif u < mix[0] and m.facts[w][0].make not in (Names.person, Names.hotel):
            q = yes_no(r, m, w)
        elif mix[0] <= u < mix[0] + mix[1] and m.ent != "trip":
            q = reverse(r, mods, m, w)
        out.append(q or lookup(r, m, w))
    return out


def make_document(r,
                  n_modules,
                  n_questions,
                  split="train",
                  p_param=0.05,
                  facts=(2, 4),
                  mix=(0.05, 0.05, 0.1),
                  kinds=None,
                  p_trip=0.5):
    """-> (system text, [Module], [Question])"""
    names = Names(r, split)
    if kinds is None:
        kinds = r.sample(MAIN, r.choices([1, 2, 3, 6], [5, 3, 2, 1])[0])
        if len(kinds) > 1 and r.random() < 0.3:         # documents in which two hops can be made
            kinds = ["city", r.choice(["person", "train"])] + kinds[2:]
    plan = [r.choice(kinds) for _ in range(n_modules)]
    if n_modules > 1 and r.random() < p_trip:
        plan[r.randrange(n_modules)] = "trip"
    plan.sort(key=lambda k: k != "city")  # cities first, so that links can point at them
    used, cities, mods = set(), [], []
    join = r.choices([" ", "\n", "\n    "], [86, 7, 7])[0]
    for k in plan:
        mods.append(make_module(r, names, k, used, cities, p_param, facts, join))
        cities += [mods[-1].ent] * (k == "city")
    r.shuffle(mods)
    return r.choice(SYSTEM), mods, questions(r, mods, n_questions, mix)


if __name__ == "__main__":
    rng = random.Random(1)
    for s in ("train", "test"):
        system, modules, qs = make_document(rng, 5, 8, s)
        print("SYSTEM",
              system,
              *(m.text() for m in modules),
              *((q.kind, q.text, q.expect()) for q in qs),
              sep="\n   ")
