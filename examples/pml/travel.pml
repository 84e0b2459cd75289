<schema name="travel">
  <system>You plan journeys. Use the notes, and give a plan for each day.</system>
  <module name="journey">The journey takes <parameter name="duration" length="8"/>. The travellers are <parameter name="travellers" length="12" scaffold="two friends"/>.</module>
  <union>
    <module name="coast">The journey goes to the coast. Ferries leave every two hours until dusk. The water is warm from June to October.
      <union>
        <module name="portmarin">Portmarin is a harbour with a fish market. The lighthouse opens at ten. The cliff path to the north takes three hours.</module>
        <module name="isola-verde">Isola Verde is an island without cars. The boat from the mainland takes forty minutes. Its gardens are closed on Mondays.</module>
        <module name="salt-bay">Salt Bay has long beaches and old salt works. The bird hide is free. Cycles can be hired behind the station.</module>
      </union>
    </module>
    <module name="mountains">The journey goes to the mountains. Huts must be booked a week before. Snow lies above two thousand metres until May.
      <union>
        <module name="high-pass">High Pass is a village below three glaciers. The cable car starts at eight. The last bus down leaves at six.</module>
        <module name="stone-lake">Stone Lake lies in a pine wood. The path around it takes half a day. Boats can be rowed from noon on.</module>
      </union>
    </module>
    <module name="city">The journey goes to a large city. A day ticket is good for trams, boats and buses. Museums are free on the first Sunday.
      <union>
        <module name="old-town">The old town has five bridges and a clock tower. The covered market closes at two. Street music begins at seven.</module>
        <module name="river-side">The river side has theatres and a long park. The evening boat takes an hour. The book stalls stand there all year.</module>
      </union>
    </module>
  </union>
  <union>
    <module name="by-train">They travel by train, and need seats on the same side.</module>
    <module name="by-cycle">They travel by cycle, sixty kilometres a day at most.</module>
    <module name="on-foot">They walk, and carry no more than ten kilograms each.</module>
  </union>
</schema>
