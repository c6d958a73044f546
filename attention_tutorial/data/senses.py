"""Sentences in which one word has one of two senses, for chapter 10's question: does a model tell them apart?

There are two lists with four sentences for each sense. The chapter looks for its findings in the first, and then asks
the second, which nobody has looked at, whether they hold. Deep page 10a asks a third list, with other words.
"""

from typing import NamedTuple

__all__ = ["CLUES", "FRESH_SENTENCES", "SECOND_SENTENCES", "SENTENCES", "Senses"]


class Senses(NamedTuple):
    """Sentences with one word, as many of each sense.

    Attributes:
        names: of the two senses.
        first: sentences with the first sense.
        second: sentences with the second.
    """

    names: tuple[str, str]
    first: tuple[str, ...]
    second: tuple[str, ...]


#: The list in which the chapter looks for findings, by word.
SENTENCES = {
    "bank": Senses(
        ("river", "money"),
        (
            "She sat on the bank of the river and fished.",
            "The children played on the muddy bank of the stream.",
            "We pulled the boat up onto the bank before dark.",
            "Willows grow along the bank of the lake.",
        ),
        (
            "He needed to transfer money to the bank.",
            "The bank raised its interest rate in May.",
            "She opened an account at the bank.",
            "The bank refused to give them a loan.",
        ),
    ),
    "bat": Senses(
        ("animal", "club"),
        (
            "A bat flew out of the dark cave.",
            "The bat sleeps hanging from the roof all day.",
            "At night the bat hunts insects by their echo.",
            "The young bat folded its thin wings.",
        ),
        (
            "He swung the bat and hit the ball.",
            "She bought a wooden bat for the baseball game.",
            "The player dropped his bat and ran.",
            "The coach showed him how to hold the bat.",
        ),
    ),
    "spring": Senses(
        ("season", "coil"),
        (
            "In spring the trees turn green again.",
            "The birds come back in early spring.",
            "Last spring was warm and dry.",
            "We plant tomatoes in the spring.",
        ),
        (
            "The spring in the old mattress broke.",
            "A steel spring pushes the door shut.",
            "The metal spring stretches when you pull it.",
            "He replaced the spring of the clock.",
        ),
    ),
    "mouse": Senses(
        ("animal", "device"),
        (
            "The cat chased a mouse into its hole.",
            "A mouse ate the cheese in the kitchen.",
            "The owl caught a mouse in the field.",
            "A tiny grey mouse hid under the straw.",
        ),
        (
            "Click the left button of the mouse.",
            "She moved the mouse to open the file.",
            "My computer needs a new mouse and keyboard.",
            "The wireless mouse has run out of battery.",
        ),
    ),
    "plant": Senses(
        ("growing", "factory"),
        (
            "The plant on the window needs water and light.",
            "This plant has small white flowers.",
            "The leaves of the plant turned yellow.",
            "She put the plant into a bigger pot.",
        ),
        (
            "The car plant employs three thousand workers.",
            "Engineers closed the nuclear plant after the fire.",
            "The plant produces steel day and night.",
            "Workers at the chemical plant went on strike.",
        ),
    ),
    "match": Senses(
        ("game", "fire"),
        (
            "Our team won the match in the last minute.",
            "The tennis match lasted five hours.",
            "Thousands of fans watched the match on television.",
            "The referee stopped the match because of rain.",
        ),
        (
            "He lit the candle with a match.",
            "She struck a match to light the stove.",
            "The match burned down to his fingers.",
            "One wet match would not catch fire.",
        ),
    ),
    "crane": Senses(
        ("bird", "machine"),
        (
            "A white crane stood in the shallow water.",
            "The crane spread its wings and flew south.",
            "The crane feeds its chicks in the nest.",
            "In winter the crane leaves the marsh.",
        ),
        (
            "The crane lifted the steel beams to the roof.",
            "A tall crane stands at the building site.",
            "The driver of the crane lowered the load.",
            "They used a crane to unload the ship.",
        ),
    ),
    "palm": Senses(
        ("hand", "tree"),
        (
            "She held the coin in her palm.",
            "He wiped the sweat from his palm.",
            "The fortune teller read the lines of my palm.",
            "A small bird sat in the palm of her hand.",
        ),
        (
            "They rested in the shade of a palm.",
            "A tall palm grew beside the beach.",
            "Coconuts fell from the palm in the storm.",
            "The garden has one palm and many cacti.",
        ),
    ),
}

#: The second list, on which the findings are tried.
SECOND_SENTENCES = {
    "bank": Senses(
        ("river", "money"),
        (
            "The otter climbed out of the water onto the bank.",
            "A path follows the bank of the canal.",
            "The flood washed away part of the bank.",
            "Two swans were nesting on the far bank.",
        ),
        (
            "Robbers broke into the bank at night.",
            "My sister works as a cashier in a bank.",
            "The bank sent him a new credit card.",
            "They keep their savings in the bank.",
        ),
    ),
    "bat": Senses(
        ("animal", "club"),
        (
            "We saw a bat circling round the street lamp.",
            "The fruit bat is the largest of its kind.",
            "A bat had got into the attic.",
            "The bat is a mammal that can fly.",
        ),
        (
            "The bat cracked when the ball struck it.",
            "He hit a home run with his new bat.",
            "Each player brings a bat and a glove.",
            "She leaned on her bat and waited for the pitch.",
        ),
    ),
    "spring": Senses(
        ("season", "coil"),
        (
            "The snow melts in spring.",
            "They were married in the spring of that year.",
            "After a long winter, spring came at last.",
            "Every spring the farmers sow their fields.",
        ),
        (
            "The pen will not work without its spring.",
            "The weight hangs from a spring on the ceiling.",
            "A broken spring stuck out of the sofa.",
            "Press the spring and then let it go.",
        ),
    ),
    "mouse": Senses(
        ("animal", "device"),
        (
            "The snake swallowed a mouse whole.",
            "We heard a mouse scratching behind the wall.",
            "The mouse ran across the floor and squeaked.",
            "A mouse has whiskers and a long tail.",
        ),
        (
            "Plug the mouse into the laptop.",
            "Drag the icon across the screen with the mouse.",
            "He scrolled down the page with his mouse.",
            "The cursor jumps when I touch the mouse.",
        ),
    ),
    "plant": Senses(
        ("growing", "factory"),
        (
            "Bees visit the plant for its nectar.",
            "A plant takes up water through its roots.",
            "The gardener cut the plant back in autumn.",
            "This plant grows wild in the forest.",
        ),
        (
            "The company will build a new plant near the port.",
            "Smoke rose from the chimneys of the plant.",
            "The plant makes engines for trucks.",
            "Managers visited the plant to inspect the machines.",
        ),
    ),
    "match": Senses(
        ("game", "fire"),
        (
            "Both players were tired after the match.",
            "The match ended two to one.",
            "He scored twice in his first match.",
            "Tickets for the football match were sold out.",
        ),
        (
            "Never leave a match where a child can find it.",
            "The last match in the box went out.",
            "A single match set the whole barn on fire.",
            "By the flame of a match he read the letter.",
        ),
    ),
    "crane": Senses(
        ("bird", "machine"),
        (
            "The crane danced in front of its mate.",
            "We watched a crane catch a frog.",
            "The grey crane has long thin legs.",
            "A crane called from the reeds at dawn.",
        ),
        (
            "The crane swung the container over the dock.",
            "Wind forced them to stop the crane.",
            "A crane hoisted the bell into the tower.",
            "The crane on the truck can carry ten tons.",
        ),
    ),
    "palm": Senses(
        ("hand", "tree"),
        (
            "The nail left a cut across his palm.",
            "She pressed her palm against the cold glass.",
            "He wrote the number on the palm of his left hand.",
            "The puppy licked my palm.",
        ),
        (
            "A single palm stood in front of the hotel.",
            "Dates grow on this palm.",
            "The wind bent the palm until it broke.",
            "A parrot was perched at the top of the palm.",
        ),
    ),
}

# The word that tells the sense stands between asterisks.
_MARKED = {
    "bank": (
        ("river", "money"),
        (
            "The *river* rose over its bank in March.",
            "A *heron* waited on the bank.",
            "He tied the *canoe* to a tree on the bank.",
            "The ducks came up the bank from the *pond*.",
            "Reeds grow on the bank of the *creek*.",
            "The *current* carried her toward the other bank.",
            "We *swam* across and rested on the bank.",
            "A steep bank rises behind the *water*.",
            "The *ferry* touched the left bank at noon.",
            "They camped on the bank and caught *trout*.",
            "The *beaver* dug a tunnel into the bank.",
            "Cows came down the bank to *drink*.",
        ),
        (
            "The bank charges a *fee* for each payment.",
            "He owes the bank more *dollars* than he earns.",
            "The bank closed her *account* last week.",
            "I waited in the bank to *cash* a check.",
            "The bank lends to small *businesses*.",
            "A *customer* shouted at the clerk of the bank.",
            "The bank lost half of its *capital*.",
            "Her *salary* goes straight to the bank.",
            "The bank would not renew his *mortgage*.",
            "He *deposited* the coins at the bank.",
            "The *robber* ran out of the bank.",
            "The *director* of the bank resigned.",
        ),
    ),
    "ring": (
        ("jewel", "boxing"),
        (
            "She wore a gold ring on her *finger*.",
            "The *jeweler* cleaned the ring with a soft cloth.",
            "He bought a ring with a small *diamond*.",
            "Her *wedding* ring slipped off in the bath.",
        ),
        (
            "The *boxer* climbed into the ring.",
            "Two *fighters* circled each other in the ring.",
            "The *champion* left the ring without a scratch.",
            "He was carried from the ring after a *punch*.",
        ),
    ),
    "seal": (
        ("animal", "closure"),
        (
            "The seal caught a *fish* under the ice.",
            "A seal lay on the *beach* with its pup.",
            "The polar *bear* crept up on the seal.",
            "The seal dived back into the *sea*.",
        ),
        (
            "Do not eat from the *jar* if the seal is broken.",
            "He pressed his seal into the hot *wax*.",
            "The rubber seal of the *pump* has worn out.",
            "The *document* bore the seal of the duke.",
        ),
    ),
    "trunk": (
        ("tree", "car"),
        (
            "Moss covered the trunk of the old *oak*.",
            "The *tree* has a thick trunk.",
            "A *woodpecker* tapped at the trunk all morning.",
            "They *carved* their names into the trunk.",
        ),
        (
            "He put the suitcases into the trunk of the *car*.",
            "The spare *tire* is in the trunk.",
            "She *parked* and opened the trunk.",
            "There was no room left in the trunk of the *taxi*.",
        ),
    ),
    "organ": (
        ("body", "music"),
        (
            "The *heart* is an organ that pumps blood.",
            "The *surgeon* removed the damaged organ.",
            "The *patient* waited a year for a new organ.",
            "The *liver* is the heaviest organ inside us.",
        ),
        (
            "She plays the organ in *church* on Sundays.",
            "The organ has two thousand *pipes*.",
            "*Bach* wrote many pieces for the organ.",
            "The *music* of the organ filled the hall.",
        ),
    ),
    "fan": (
        ("person", "machine"),
        (
            "He is a fan of the local football *team*.",
            "A fan asked the *singer* for her autograph.",
            "Every fan in the *stadium* stood up.",
            "She has been a fan of the *band* for years.",
        ),
        (
            "The fan kept the room *cool* all night.",
            "*Switch* the fan on when it gets hot.",
            "Dust had settled on the *blades* of the fan.",
            "An *electric* fan turned slowly above the bed.",
        ),
    ),
    "jam": (
        ("fruit", "traffic"),
        (
            "She spread *strawberry* jam on her toast.",
            "We cooked plum jam with very little *sugar*.",
            "A *jar* of jam stood on the shelf.",
            "The *bread* was served with butter and jam.",
        ),
        (
            "We sat in a jam on the *highway* for two hours.",
            "The *accident* caused a jam on the bridge.",
            "*Traffic* news warned of a jam near the tunnel.",
            "The *cars* in the jam did not move at all.",
        ),
    ),
    "date": (
        ("day", "fruit"),
        (
            "They have not set a date for the *wedding*.",
            "The date of the *meeting* was changed twice.",
            "What date is printed on the *ticket*?",
            "The *letter* carries no date.",
        ),
        (
            "He *ate* a date with his coffee.",
            "The *stone* of a date is long and hard.",
            "She stuffed each date with an *almond*.",
            "A date is a very sweet *fruit*.",
        ),
    ),
    "pupil": (
        ("eye", "school"),
        (
            "The pupil of the *eye* grows wide in the dark.",
            "The doctor shone a *light* into the left pupil.",
            "The *iris* surrounds the pupil.",
            "The *drops* made one pupil larger than the other.",
        ),
        (
            "The *teacher* praised the pupil for her essay.",
            "Each pupil has a desk in the *classroom*.",
            "A new pupil joined our *school* in March.",
            "The pupil handed in his *homework* late.",
        ),
    ),
    "court": (
        ("law", "sport"),
        (
            "The *judge* entered the court at nine.",
            "The court found him *guilty* of theft.",
            "Her *lawyer* spoke for an hour in court.",
            "The *witness* did not appear in court.",
        ),
        (
            "They booked a *tennis* court for the afternoon.",
            "He ran across the court and reached the *ball*.",
            "The *players* left the court when it rained.",
            "The *net* in the middle of the court was torn.",
        ),
    ),
    "letter": (
        ("mail", "alphabet"),
        (
            "The *postman* brought a letter from Spain.",
            "He put a *stamp* on the letter.",
            "She tore the *envelope* and read the letter.",
            "I *wrote* him a long letter last week.",
        ),
        (
            "The *word* begins with a capital letter.",
            "You *spell* it with a double letter.",
            "Z is the last letter of the *alphabet*.",
            "The letter Q is rare in *English*.",
        ),
    ),
    "scale": (
        ("weight", "skin"),
        (
            "He *weighed* the flour on the kitchen scale.",
            "The scale shows two *pounds* less than yesterday.",
            "Put the *apples* on the scale, please.",
            "She stepped on the scale after her *diet*.",
        ),
        (
            "Each scale of the *fish* shone like silver.",
            "The *snake* lost a scale near its tail.",
            "A scale of the *lizard* was stuck to the rock.",
            "The *dragon* had one loose scale on its chest.",
        ),
    ),
    "cell": (
        ("prison", "biology"),
        (
            "The *prisoner* slept on the floor of his cell.",
            "The *guard* locked the door of the cell.",
            "He spent ten years in a *prison* cell.",
            "The window of the cell had iron *bars*.",
        ),
        (
            "Under the *microscope* the cell looks round.",
            "Each cell has a copy of the *genes*.",
            "A *virus* must enter a cell to multiply.",
            "The cell *divides* every twenty minutes.",
        ),
    ),
    "deck": (
        ("ship", "cards"),
        (
            "The *sailors* scrubbed the deck every morning.",
            "Waves washed over the deck of the *ship*.",
            "The *captain* stood on the deck and looked north.",
            "*Passengers* sat on the deck in the sun.",
        ),
        (
            "Shuffle the deck and deal five *cards* each.",
            "There are four *aces* in a deck.",
            "She drew the *queen* of hearts from the deck.",
            "The *magician* asked me to cut the deck.",
        ),
    ),
    "nail": (
        ("finger", "hammer"),
        (
            "She painted the nail of her *thumb* red.",
            "He bit his nail until the *skin* hurt.",
            "The nail of my big *toe* turned blue.",
            "There was dirt under every nail of his *hand*.",
        ),
        (
            "He hit the nail with a *hammer*.",
            "The *picture* hangs from a nail in the wall.",
            "A rusty nail stuck out of the *board*.",
            "The *carpenter* pulled the nail from the beam.",
        ),
    ),
    "horn": (
        ("animal", "car"),
        (
            "The *goat* lost a horn in the fight.",
            "The horn of a *rhino* grows all its life.",
            "The *bull* scraped the fence with one horn.",
            "The *unicorn* had a horn of silver.",
        ),
        (
            "The *driver* sounded his horn at the corner.",
            "A *taxi* behind us blew its horn.",
            "The horn of my *car* does not work.",
            "We heard the horn of a *truck* in the fog.",
        ),
    ),
    "pitcher": (
        ("jug", "baseball"),
        (
            "She filled the pitcher with *water*.",
            "A pitcher of *lemonade* stood on the table.",
            "Pour the *milk* into the blue pitcher.",
            "The *glass* pitcher has a crack in its handle.",
        ),
        (
            "The pitcher threw the *ball* too high.",
            "Our pitcher is the best in the *league*.",
            "The *team* traded its pitcher in June.",
            "A pitcher must have a strong *arm*.",
        ),
    ),
}

#: The third list, with twelve sentences for each sense of *bank*, and four for each sense of sixteen other words.
FRESH_SENTENCES = {
    word: Senses(called, *(tuple(text.replace("*", "") for text in texts) for texts in groups))
    for word, (called, *groups) in _MARKED.items()
}

#: The word that tells the sense, in small letters, by sentence of the third list; chosen before a model read any.
CLUES = {
    text.replace("*", ""): text.split("*")[1].lower()
    for _, *groups in _MARKED.values()
    for texts in groups
    for text in texts
}
