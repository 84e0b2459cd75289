<schema name="catalogue">
  <system>Read the notes and answer.</system>
  <module name="eagle-tent">Product: Eagle tent. The price of the Eagle tent is 625 dollars. The color of the Eagle tent is red. The warranty of the Eagle tent is 18 months.</module>
  <module name="river-lamp">Product: River lamp. The price of the River lamp is 57 dollars. The color of the River lamp is yellow. The weight of the River lamp is 660 grams. The warranty of the River lamp is 12 months.</module>
  <module name="iron-kettle">Product: Iron kettle. The price of the Iron kettle is 461 dollars. The color of the Iron kettle is pink. The material of the Iron kettle is steel.</module>
  <module name="golden-clock">Product: Golden clock. The price of the Golden clock is 75 dollars. The color of the Golden clock is blue. The weight of the Golden clock is 150 grams. The warranty of the Golden clock is 48 months.</module>
  <module name="forest-backpack">Product: Forest backpack. The price of the Forest backpack is 571 dollars. The color of the Forest backpack is orange. The weight of the Forest backpack is 700 grams.</module>
  <module name="ocean-watch">Product: Ocean watch. The price of the Ocean watch is 137 dollars. The color of the Ocean watch is silver. The material of the Ocean watch is rubber. The warranty of the Ocean watch is 18 months.</module>
  <module name="wolf-knife">Product: Wolf knife. The price of the Wolf knife is 259 dollars. The material of the Wolf knife is steel. The warranty of the Wolf knife is 24 months.</module>
  <module name="cedar-table">Product: Cedar table. The price of the Cedar table is 443 dollars. The color of the Cedar table is purple. The material of the Cedar table is wood. The warranty of the Cedar table is 12 months.</module>
  <module name="velvet-chair">Product: Velvet chair. The price of the Velvet chair is 44 dollars. The color of the Velvet chair is gold. The weight of the Velvet chair is 120 grams. The warranty of the Velvet chair is 18 months.</module>
  <module name="copper-pan">Product: Copper pan. The price of the Copper pan is 225 dollars. The color of the Copper pan is black. The weight of the Copper pan is 370 grams. The material of the Copper pan is copper.</module>
  <module name="moon-radio">Product: Moon radio. The price of the Moon radio is 334 dollars. The weight of the Moon radio is 800 grams. The material of the Moon radio is plastic. The warranty of the Moon radio is 6 months.</module>
  <module name="summit-jacket">Product: Summit jacket. The price of the Summit jacket is 681 dollars. The color of the Summit jacket is beige. The material of the Summit jacket is wool. The warranty of the Summit jacket is 24 months.</module>
  <module name="snow-helmet">Product: Snow helmet. The price of the Snow helmet is 598 dollars. The weight of the Snow helmet is 290 grams. The material of the Snow helmet is plastic. The warranty of the Snow helmet is 18 months.</module>
  <module name="harbor-camera">Product: Harbor camera. The price of the Harbor camera is 334 dollars. The color of the Harbor camera is gray. The weight of the Harbor camera is 610 grams. The material of the Harbor camera is nylon.</module>
</schema>
