#!/usr/bin/env python3
"""A prompt program (doc/programs.md): notes of a journey as a function. Its texts are encoded once;
every call chooses some of them, fills in the length and asks a question of its own.

usage: travel_program.py MODEL      MODEL: models/demo/demo.gguf"""
import sys
from typing import Annotated, Literal

import promptcache
from promptcache.programs import Text, prompt_program, system, user

TIMETABLE = [("Coral Express", 12, 46), ("Silver Arrow", 3, 58)]


@prompt_program
def hotel(city: Literal["lisbon", "oslo"]) -> None:
    match city:
        case "lisbon":
            "The hotel in Lisbon is Harbor House. The room in Lisbon is 120 euros. "
        case "oslo":
            "The hotel in Oslo is Snow Lodge. The room in Oslo is 210 euros. "


@prompt_program
def travel(city: Literal["lisbon", "oslo"], days: Annotated[str, Text(4)], *,
           museum: bool = False, question: str) -> None:
    """Notes about a journey, and a question."""
    system("Answer from the notes.")
    f"Trip plan. The length of the trip is {days} days. "
    hotel(city)
    if museum:
        "The opening of the Oak Museum is 9. The closing of the Oak Museum is 18. "
    for train, platform, fare in TIMETABLE:
        f"The platform of the {train} is {platform}. The fare of the {train} is {fare} euros. "
    user(f"{question}")


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    schema = travel.compile(promptcache.Model.load(sys.argv[1]))
    cache = promptcache.Cache()
    schema.encode(cache)
    for asked in (travel("oslo", "12", question="What is the room in Oslo?"),
                  travel("lisbon", "5", museum=True, question="What is the hotel in Lisbon?")):
        answer = asked.prompt(schema).generate(cache)
        print(f"{', '.join(asked.modules)}: {answer.stats.tokens_cached} tokens from the cache")
        print(answer.text)


if __name__ == "__main__":
    main()
