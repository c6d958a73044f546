"""Sentences in which one word has one of two senses, for chapter 10's question: does a model tell them apart?

There are two lists with four sentences for each sense. The chapter looks for its findings in the first, and then asks
the second, which nobody has looked at, whether they hold.
"""

from typing import NamedTuple

__all__ = ["SECOND_SENTENCES", "SENTENCES", "Senses"]


class Senses(NamedTuple):
    """Sentences with one word, four of each sense.

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
