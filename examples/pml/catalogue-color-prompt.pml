<prompt schema="catalogue">
  <eagle-tent/>
  <golden-clock/>
  <forest-backpack/>
  <ocean-watch/>
  <wolf-knife/>
  <cedar-table/>
  <velvet-chair/>
  <copper-pan/>
  <moon-radio/>
  <summit-jacket/>
  <snow-helmet/>
  <user>Which color is the Summit jacket?</user>
</prompt>
