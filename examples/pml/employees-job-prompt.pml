<prompt schema="employees">
  <rosa-silva/>
  <peter-novak/>
  <clara-holt/>
  <ivan-keller/>
  <hugo-brook/>
  <nina-tanaka/>
  <sara-lopez/>
  <felix-weber/>
  <olga-hughes/>
  <tom-archer/>
  <kate-wade/>
  <liam-turner/>
  <alice-chen/>
  <gloria-grant/>
  <user>Which job does Alice Chen have?</user>
</prompt>
