"""The word pools of the generated documents.  Every word is one token (see tokenizer.py)."""

FIRST = """Anna Ben Carla David Elena Frank Grace Henry Irene Jack Karen Leo Maria Nina Oscar
Paula Quinn Rosa Sam Tina Ugo Vera Walter Xenia Yara Zoe Adam Bella Carl Diana Erik Fiona
George Helen Ivan Julia Kevin Laura Mark Nora Oliver Petra Ralph Sara Tom Ursula Victor Wendy
Alice Bruno Clara Dennis Emma Felix Gloria Hugo Iris James Kate Liam Mona Noah Olga Peter
Rita Simon Teresa Vincent Alan Betty Chris Dora Edgar Flora Gavin Hazel Jonas Lydia Martin
Naomi Otto Pia Robert Sofia Theo Viola Amir Bianca Cesar Delia""".split()
LAST = """Reed Baker Hill Marsh Cole Frost Lane Wood Cross Field Brook Dale Ford Grant
Hale Ivory Jones Knight Long Moore North Oak Price Quill Rivers Shaw Todd Usher Vale West Young
Archer Bell Carter Drake Ellis Fisher Harper Irwin Kemp Lopez Mason Nash Owens
Porter Silva Turner Vance Walsh Yates Abbott Blake Chen Diaz Evans Flores Garcia Hughes
Ito Jensen Kumar Larsen Mills Novak Olsen Perez Romano Santos Tanaka Weber Adler Bishop Conrad
Dunn Egan Fox Gray Holt Keller Lowe Mercer Noble Otis Page Rowe Sharp Thorne Wade""".split()
CITY = """Lisbon Porto Oslo Rome Paris Madrid Berlin Vienna Prague Athens Dublin London Milan
Naples Turin Venice Seville Lyon Nice Geneva Zurich Basel Munich Hamburg Cologne Dresden Warsaw
Riga Tallinn Bergen Ghent Bruges Delft Zagreb Cairo Tunis Dakar Nairobi Lima Quito Havana Boston
Denver Austin Seattle Chicago Toronto Quebec Kyoto Osaka Tokyo Seoul Hanoi Delhi Perth
Sydney""".split(
)
START = """Lor Bel Mar Tor Vel Nor Kal Fen Gal Har Jen Kor Lin Mon Nel Pal Quen Ros Sal Tal Var
Wen Yar Zan Bran Cal Dor Fal Gren Hol Jor Kel Lam Mil Nar Ost Per Rav Sor Tren Und Ves Wil
Ald Bor Cas Dal Fos Gim Hes Jar Kin Lun Mor Nim Pel Rin Sten Tham Vol Win Zel""".split()
END = """van mira ton ville burg mar port dale ria nia den heim ford wick stad lia vik mont bridge
field haven moor ness gate well tor mere shire dor zen tis bury ham land""".split()
WORD = """Oak River Harbor Sea Hill Garden Stone Golden Silver Green Blue Red White Black North
South
East West Sun Moon Star Cloud Rain Snow Wind Fire Lake Forest Valley Meadow Rose Lily Maple Cedar
Pine Willow Birch Olive Lemon Cherry Apple Eagle Falcon Swan Heron Robin Raven Fox Wolf Bear Lion
Tiger Deer Horse Dolphin Whale Coral Pearl Amber Ruby Crystal Copper Iron Royal Grand Old New Little
Market Mill Bridge Castle Tower Chapel Abbey Park Central Union Liberty Victory Crown Anchor Compass
Lantern Mirror Velvet Ivory Marble Granite Desert Island Ocean Bay Cliff Canyon Summit
Orchard""".split(
)
HOTEL = "House Inn Lodge Palace Court Rest Villa Hotel".split()
PLACE = """Museum Library Hall Gallery Pool Theater Bakery Clinic Garage Cafe Shop Gym Bank Studio
School Zoo""".split()
TRAIN = "Express Train Line Arrow Flyer Shuttle".split()
THING = """lamp chair kettle table clock radio bottle bag jacket tent bike helmet camera phone drill
ladder mug pan knife blanket pillow mirror printer speaker desk shelf fan heater mixer toaster watch
scarf backpack umbrella guitar drum flute ball rope torch""".split()
FOOD = """fish soup stew bread cheese rice beans lamb chicken pie pasta salad noodles dumplings
sausage pancakes crab shrimp beef mushrooms potatoes cabbage eggs tofu""".split()
DISH = """cake soup bread pie stew salad tart cookies muffins pudding curry pasta rice omelette
waffles chili risotto lasagna dumplings gratin""".split()
FLAVOR = """lemon apple carrot tomato onion garlic pumpkin ginger honey almond cherry banana potato
mushroom spinach coconut pepper cheese walnut orange plum pear leek corn bean lentil berry mint
peach vanilla""".split()
SPICE = """cinnamon pepper saffron basil thyme cumin nutmeg paprika rosemary oregano mint dill
cloves
turmeric sage parsley chives fennel anise mustard""".split()
WEATHER = "mild windy rainy sunny foggy hot cold dry humid stormy cloudy warm cool snowy".split()
JOB = """baker nurse pilot teacher lawyer painter driver cook farmer engineer doctor writer singer
plumber dentist barber tailor gardener designer chemist banker editor judge guard clerk carpenter
sailor actor waiter librarian""".split()
TEAM = """sales design legal finance support research security training travel quality marketing
hardware software planning""".split()
HOBBY = """chess tennis running painting fishing cooking dancing sailing reading hiking skiing
cycling gardening swimming singing yoga golf pottery climbing rowing""".split()
COLOR = "red blue green black white yellow orange purple brown gray pink silver gold beige".split()
MATERIAL = """wood steel glass plastic leather cotton wool bamboo copper paper clay rubber silk
nylon""".split()
DAY = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
CONSONANT = "b c d f g h j k l m n p r s t v w z br ch dr gr sh st th tr".split()
VOWEL = "a e i o u a e o ai ea ou".split()
MID_SENTENCE = (FIRST, LAST, CITY, START, WORD, HOTEL, PLACE, TRAIN, THING, FOOD, DISH, FLAVOR,
                SPICE, WEATHER, JOB, TEAM, HOBBY, COLOR, MATERIAL, DAY)
