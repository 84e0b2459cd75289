<schema name="employees">
  <system>Use the notes to answer.</system>
  <module name="anna-reed">Employee: Anna Reed. The job of Anna Reed is engineer. The desk of Anna Reed is 341. The phone of Anna Reed is 205. The hobby of Anna Reed is chess.</module>
  <module name="oscar-baker">Employee: Oscar Baker. The job of Oscar Baker is lawyer. The desk of Oscar Baker is 192. The team of Oscar Baker is legal. The phone of Oscar Baker is 120.</module>
  <module name="rosa-silva">Employee: Rosa Silva. The job of Rosa Silva is writer. The desk of Rosa Silva is 632. The team of Rosa Silva is quality.</module>
  <module name="peter-novak">Employee: Peter Novak. The job of Peter Novak is nurse. The desk of Peter Novak is 368. The team of Peter Novak is support. The phone of Peter Novak is 126.</module>
  <module name="clara-holt">Employee: Clara Holt. The job of Clara Holt is designer. The desk of Clara Holt is 417. The team of Clara Holt is research. The hobby of Clara Holt is reading.</module>
  <module name="ivan-keller">Employee: Ivan Keller. The job of Ivan Keller is chemist. The desk of Ivan Keller is 445. The team of Ivan Keller is sales. The hobby of Ivan Keller is yoga.</module>
  <module name="hugo-brook">Employee: Hugo Brook. The job of Hugo Brook is pilot. The desk of Hugo Brook is 584. The team of Hugo Brook is research. The hobby of Hugo Brook is running.</module>
  <module name="nina-tanaka">Employee: Nina Tanaka. The desk of Nina Tanaka is 398. The team of Nina Tanaka is finance. The phone of Nina Tanaka is 821. The hobby of Nina Tanaka is hiking.</module>
  <module name="sara-lopez">Employee: Sara Lopez. The job of Sara Lopez is teacher. The desk of Sara Lopez is 713. The phone of Sara Lopez is 541.</module>
  <module name="felix-weber">Employee: Felix Weber. The job of Felix Weber is editor. The desk of Felix Weber is 412. The phone of Felix Weber is 932. The hobby of Felix Weber is painting.</module>
  <module name="olga-hughes">Employee: Olga Hughes. The desk of Olga Hughes is 741. The team of Olga Hughes is research. The phone of Olga Hughes is 631. The hobby of Olga Hughes is skiing.</module>
  <module name="tom-archer">Employee: Tom Archer. The job of Tom Archer is clerk. The desk of Tom Archer is 451. The phone of Tom Archer is 789. The hobby of Tom Archer is pottery.</module>
  <module name="kate-wade">Employee: Kate Wade. The desk of Kate Wade is 750. The team of Kate Wade is sales. The phone of Kate Wade is 551.</module>
  <module name="liam-turner">Employee: Liam Turner. The job of Liam Turner is painter. The desk of Liam Turner is 546. The team of Liam Turner is hardware. The phone of Liam Turner is 702.</module>
  <module name="mona-diaz">Employee: Mona Diaz. The desk of Mona Diaz is 959. The team of Mona Diaz is design. The phone of Mona Diaz is 825.</module>
  <module name="vera-marsh">Employee: Vera Marsh. The job of Vera Marsh is doctor. The desk of Vera Marsh is 730. The team of Vera Marsh is planning. The hobby of Vera Marsh is cooking.</module>
  <module name="simon-drake">Employee: Simon Drake. The job of Simon Drake is barber. The desk of Simon Drake is 570. The team of Simon Drake is design.</module>
  <module name="alice-chen">Employee: Alice Chen. The job of Alice Chen is librarian. The desk of Alice Chen is 852. The team of Alice Chen is sales. The phone of Alice Chen is 434.</module>
  <module name="gloria-grant">Employee: Gloria Grant. The job of Gloria Grant is carpenter. The desk of Gloria Grant is 256. The phone of Gloria Grant is 767.</module>
  <module name="martin-hale">Employee: Martin Hale. The desk of Martin Hale is 732. The team of Martin Hale is support. The phone of Martin Hale is 554. The hobby of Martin Hale is swimming.</module>
</schema>
