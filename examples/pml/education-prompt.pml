<prompt schema="education">
  <beginner/>
  <rivers/>
  <by-doing/>
  <hasty/>
  <ten-minutes/>
  <quiz/>
  <user>Write the lesson.</user>
</prompt>
