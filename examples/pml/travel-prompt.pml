<prompt schema="travel">
  <journey duration="three days" travellers="a family of four"/>
  <coast><isola-verde/></coast>
  <by-train/>
  <user>Plan the journey, and say what to do if it rains.</user>
</prompt>
