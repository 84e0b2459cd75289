<schema name="code">
  <system>You write Python for the small game below. Keep its style, and answer with code.</system>
  <module name="board.py"><![CDATA[# board.py: the marsh, a grid of tiles
WATER, REED, STONE = "~", "|", "o"

class Board:
    def __init__(self, rows):
        self.rows = [list(row) for row in rows]

    def inside(self, x, y):
        return 0 <= y < len(self.rows) and 0 <= x < len(self.rows[y])

    def tile(self, x, y):
        return self.rows[y][x] if self.inside(x, y) else WATER

    def is_dry(self, x, y):
        return self.tile(x, y) != WATER
]]></module>
  <module name="heron.py"><![CDATA[# heron.py: the player
STEPS = {"n": (0, -1), "s": (0, 1), "w": (-1, 0), "e": (1, 0)}

class Heron:
    def __init__(self, x, y):
        self.x, self.y = x, y
        self.fish = 0
        self.breath = 10

    def step(self, board, way):
        dx, dy = STEPS[way]
        if not board.inside(self.x + dx, self.y + dy):
            return False
        self.x, self.y = self.x + dx, self.y + dy
        self.breath -= 0 if board.is_dry(self.x, self.y) else 1
        return True
]]></module>
  <module name="pond.py"><![CDATA[# pond.py: the fish, which hide below reeds
import random

class Pond:
    def __init__(self, board, count, seed=1):
        draw = random.Random(seed)
        reeds = [(x, y) for y, row in enumerate(board.rows)
                 for x, tile in enumerate(row) if tile == "|"]
        self.fish = set(draw.sample(reeds, min(count, len(reeds))))

    def catch(self, heron):
        place = heron.x, heron.y
        if place in self.fish:
            self.fish.remove(place)
            heron.fish += 1
            return True
        return False
]]></module>
  <module name="game.py"><![CDATA[# game.py: one game, from the first step to the last breath
class Game:
    def __init__(self, board, heron, pond):
        self.board, self.heron, self.pond = board, heron, pond

    def is_over(self):
        return not self.pond.fish or self.heron.breath <= 0

    def turn(self, way):
        moved = self.heron.step(self.board, way)
        caught = moved and self.pond.catch(self.heron)
        return "caught" if caught else "moved" if moved else "stopped"
]]></module>
</schema>
