<prompt schema="city-guide">
  <trip days="12"/>
  <kyoto/>
  <museum/>
  <train/>
  <user>How many days is the trip?</user>
</prompt>
