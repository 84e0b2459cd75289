<prompt schema="city-guide">
  <trip days="7"/>
  <lisbon/>
  <museum/>
  <train/>
  <guide/>
  <user>What is the room in the city of Hugo Brook?</user>
</prompt>
