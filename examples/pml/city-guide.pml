<schema name="city-guide">
  <system>Answer from the notes.</system>
  <module name="trip">Trip plan. The length of the trip is <parameter name="days" length="4"/> days. The budget of the trip is 900 euros. The leader of the trip is Clara Holt.</module>
  <union>
    <module name="lisbon">City guide: Lisbon. The hotel in Lisbon is Harbor House. The room in Lisbon is 120 euros. The dish in Lisbon is fish. The tram in Lisbon is 25 minutes.</module>
    <module name="oslo">City guide: Oslo. The hotel in Oslo is Snow Lodge. The room in Oslo is 210 euros. The weather in Oslo is windy.</module>
    <module name="kyoto">City guide: Kyoto. The hotel in Kyoto is Maple Inn. The room in Kyoto is 95 euros. The dish in Kyoto is tofu. The weather in Kyoto is mild.</module>
  </union>
  <module name="museum">Opening hours: Oak Museum. The opening of the Oak Museum is 9. The closing of the Oak Museum is 18. The holiday of the Oak Museum is Monday. The ticket for the Oak Museum is 14 euros.</module>
  <module name="cafe">Opening hours: Harbor Cafe. The opening of the Harbor Cafe is 7. The closing of the Harbor Cafe is 22. The holiday of the Harbor Cafe is Sunday.</module>
  <module name="train">Timetable: Coral Express. The platform of the Coral Express is 12. The goal of the Coral Express is Lisbon. The fare of the Coral Express is 46 euros. The speed of the Coral Express is 240 miles.</module>
  <module name="guide">Profile: Hugo Brook. The phone of Hugo Brook is 417. The hobby of Hugo Brook is sailing. The city of Hugo Brook is Lisbon.</module>
</schema>
