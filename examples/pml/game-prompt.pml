<prompt schema="game">
  <rules/>
  <player name="Ada" turn="seven"/>
  <loft/>
  <fox/>
  <key/>
  <user>I try the key on the chest, and give the fox some bread.</user>
</prompt>
