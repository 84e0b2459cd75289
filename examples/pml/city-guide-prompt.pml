<prompt schema="city-guide">
  <trip days="5"/>
  <lisbon/>
  <museum/>
  <cafe/>
  <train/>
  <guide/>
  <user>What is the hotel in Lisbon?</user>
</prompt>
