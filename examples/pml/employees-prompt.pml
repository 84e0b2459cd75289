<prompt schema="employees">
  <anna-reed/>
  <oscar-baker/>
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
  <mona-diaz/>
  <vera-marsh/>
  <user>What is the desk of Peter Novak?</user>
</prompt>
