<prompt schema="catalogue">
  <eagle-tent/>
  <river-lamp/>
  <iron-kettle/>
  <golden-clock/>
  <forest-backpack/>
  <ocean-watch/>
  <wolf-knife/>
  <cedar-table/>
  <velvet-chair/>
  <copper-pan/>
  <moon-radio/>
  <summit-jacket/>
  <user>How much is the Golden clock?</user>
</prompt>
