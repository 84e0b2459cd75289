<prompt schema="code">
  <board.py/>
  <heron.py/>
  <game.py/>
  <user>Write a function draw(game) that returns the board as text, with H where the heron is.</user>
</prompt>
