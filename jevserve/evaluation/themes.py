"""What generated decisions are about: themes with sentences of the two halves.

A theme has a key, a description, a question, and six sentence templates. The first three of a
theme are the fitting half, the last three the held-out half, so that nothing is reported on a
sentence that a scale was fitted on. ``{…}`` are slots; their fillers are in ``FILLERS``.
All sentences were written for this file.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Theme:
    key: str
    description: str
    question: str
    sentences: tuple[str, str, str, str, str, str]


FILLERS: dict[str, tuple[str, ...]] = {
    "name": ("Amira", "Jonas", "Mei", "Tomasz", "Leila", "Oscar", "Priya", "Diego"),
    "city": ("Lisbon", "Osaka", "Leeds", "Tampere", "Bogota", "Porto", "Graz", "Austin"),
    "thing": ("kettle", "headset", "desk lamp", "backpack", "keyboard", "winter coat", "tent"),
    "day": ("Monday", "Tuesday", "Friday", "the 14th", "last week", "yesterday"),
    "sum": ("12 euros", "$40", "89 pounds", "310 francs", "25 dollars"),
    "number": ("48213", "A-1190", "77-031", "5560", "KX20"),
}

SUPPORT = (
    Theme(
        "refund",
        "the customer wants their money back",
        "Does the customer ask for a refund?",
        (
            "I would like my {sum} back for the {thing}.",
            "Please return the payment for order {number}, I do not want the {thing} any more.",
            "The {thing} was a mistake, can you reimburse me?",
            "I sent the {thing} back on {day} and still have not got my money.",
            "How do I get refunded for order {number}?",
            "Kindly credit the {sum} to my card again.",
        ),
    ),
    Theme(
        "delivery",
        "a parcel is late, lost or went to the wrong place",
        "Is this about a delivery problem?",
        (
            "My parcel was due on {day} and has not arrived.",
            "The courier left the {thing} at a wrong address in {city}.",
            "Tracking for {number} has not moved since {day}.",
            "Where is my {thing}? It should have been here by {day}.",
            "The driver says it was handed over, but nobody in {city} got the box.",
            "Shipment {number} seems to be lost.",
        ),
    ),
    Theme(
        "password",
        "the user cannot sign in to their account",
        "Can the user not sign in?",
        (
            "I forgot my password and the reset mail never comes.",
            "The site says my login is wrong although I changed nothing.",
            "My account is locked after three attempts.",
            "I cannot log in since {day}.",
            "The code that you text me for signing in is always rejected.",
            "Please unlock the user {name}, access is denied.",
        ),
    ),
    Theme(
        "invoice",
        "a question about a bill, a charge or a receipt",
        "Is this about a bill?",
        (
            "Invoice {number} lists {sum} that I do not understand.",
            "Can you send me a receipt for {day}?",
            "Why was my card charged {sum} twice?",
            "The VAT number is missing on our bill {number}.",
            "Our accounting needs a copy of the statement from {day}.",
            "There is an extra fee of {sum} on this month's charges.",
        ),
    ),
    Theme(
        "cancel",
        "the customer wants to end a subscription or contract",
        "Does the customer want to cancel?",
        (
            "Please end my subscription at the end of the month.",
            "I want to quit the plan, do not renew it.",
            "How can I terminate contract {number}?",
            "We no longer need the service, close our membership.",
            "Stop the monthly plan from {day} on.",
            "I am leaving, delete the recurring order.",
        ),
    ),
    Theme(
        "broken",
        "a product is faulty or damaged",
        "Is a product defective?",
        (
            "The {thing} stopped working after two days.",
            "There is a crack in the {thing} I unpacked on {day}.",
            "One part of the {thing} is missing and it makes a noise.",
            "The {thing} does not switch on at all.",
            "My new {thing} came with a torn seam.",
            "It broke the first time {name} used it.",
        ),
    ),
)

ASSISTANT = (
    Theme(
        "set_alarm",
        "wake the user or remind them at a time",
        "Does the user want an alarm?",
        (
            "Wake me at six on {day}.",
            "Remind me to call {name} at noon.",
            "I need a buzzer in twenty minutes.",
            "Get me up at half past five.",
            "Do not let me forget the dentist on {day}.",
            "Start a timer for the eggs.",
        ),
    ),
    Theme(
        "send_money",
        "transfer an amount to somebody",
        "Does the user want to transfer money?",
        (
            "Send {sum} to {name}.",
            "Pay {name} back the {sum} from {day}.",
            "Move {sum} to my savings.",
            "Wire {sum} to the landlord in {city}.",
            "I owe {name} {sum}, settle it please.",
            "Put {sum} on {name}'s account.",
        ),
    ),
    Theme(
        "order_food",
        "have a meal delivered",
        "Does the user want food?",
        (
            "Get me a large pizza with olives.",
            "I am hungry, two portions of noodles to my place.",
            "Have sushi brought to the office on {day}.",
            "Could a curry be delivered for {name} and me?",
            "A burger and fries, please, to the usual address.",
            "Dinner for three from the Thai place.",
        ),
    ),
    Theme(
        "book_ride",
        "get a taxi or a driver",
        "Does the user want a ride?",
        (
            "I need a cab to the station in {city}.",
            "Pick {name} up at the airport on {day}.",
            "Call a driver for me, now.",
            "Get us a lift downtown.",
            "A car to {city} at eight, two passengers.",
            "Can someone drive me home?",
        ),
    ),
    Theme(
        "translate",
        "say a text in another language",
        "Does the user want a translation?",
        (
            "What is good morning in Finnish?",
            "Put this sentence into Spanish.",
            "How do you say thank you in Japanese?",
            "I need that paragraph in German.",
            "Tell me the Polish word for umbrella.",
            "Turn my letter to {name} into French.",
        ),
    ),
    Theme(
        "smart_home",
        "switch lights, heating or devices at home",
        "Does the user control a device?",
        (
            "Dim the lamps in the hall.",
            "Make the bedroom two degrees warmer.",
            "Close the blinds and lock the door.",
            "Lights off in the kitchen.",
            "Turn the heating down while I am in {city}.",
            "Switch the washing machine on at nine.",
        ),
    ),
)

NEWS = (
    Theme(
        "economy",
        "markets, companies, jobs and prices",
        "Is this about the economy?",
        (
            "Shares of the chip maker fell after weak sales in {city}.",
            "The central bank left interest rates where they were on {day}.",
            "Unemployment rose for the third month.",
            "The retailer will buy its smaller rival for a record price.",
            "Inflation slowed as fuel became cheaper.",
            "Exports grew faster than analysts had thought.",
        ),
    ),
    Theme(
        "sport",
        "matches, players and championships",
        "Is this about sport?",
        (
            "{name} scored twice as {city} won the final.",
            "The sprinter broke the national record on {day}.",
            "A knee injury keeps the goalkeeper out of the league.",
            "The coach was dismissed after five defeats.",
            "{city} will host the swimming championships.",
            "She won the second set in a tie break.",
        ),
    ),
    Theme(
        "science",
        "research, space and discoveries",
        "Is this about science?",
        (
            "Astronomers found water vapour on a distant planet.",
            "A new catalyst makes hydrogen from sea water.",
            "Fossils near {city} show how early birds flew.",
            "The probe sent its first pictures of the moon's far side.",
            "Physicists measured the particle's mass more exactly.",
            "Gene editing restored sight in mice, a laboratory in {city} reports.",
        ),
    ),
    Theme(
        "health",
        "medicine, hospitals and illness",
        "Is this about health?",
        (
            "Hospitals in {city} prepare for a wave of influenza.",
            "A vaccine against malaria was approved on {day}.",
            "Doctors warn of too little sleep among teenagers.",
            "Waiting times for hip surgery are longer than ever.",
            "A cheap pill lowers the risk of stroke.",
            "Nurses treat more patients with measles.",
        ),
    ),
    Theme(
        "travel",
        "journeys, hotels and sights",
        "Is this about travel?",
        (
            "A night train will link {city} with the coast.",
            "Ten quiet beaches for the end of summer.",
            "The old town of {city} is best seen on foot.",
            "Hotels offer long stays for guests who work on the way.",
            "Airlines add flights to the islands.",
            "A hiking trail leads past three castles to {city}.",
        ),
    ),
    Theme(
        "culture",
        "films, books, music and museums",
        "Is this about culture?",
        (
            "The novel by {name} won the national prize.",
            "A forgotten opera is staged in {city} again.",
            "The museum shows two hundred drawings by the painter.",
            "Critics praise the director's second film.",
            "The band plays its last album live on {day}.",
            "A poetry festival opens in {city}.",
        ),
    ),
)

FAMILIES: dict[str, tuple[Theme, ...]] = {
    "support": SUPPORT,
    "assistant": ASSISTANT,
    "news": NEWS,
}

#: (level texts, sentences per level: two of the fitting half, then two held out).
Scale = tuple[tuple[str, ...], str, tuple[tuple[str, str, str, str], ...]]

SCALES: dict[str, Scale] = {
    "urgency": (
        (
            "can wait, no hurry",
            "should be done this week",
            "urgent, needs help today",
            "emergency, people or the business are in danger right now",
        ),
        "How urgent is this?",
        (
            (
                "Whenever you have time, the {thing} label has a typo.",
                "No rush: could you update my address some day?",
                "Just an idea for next year: a {thing} in blue.",
                "It is a small thing and not important, the footer is out of date.",
            ),
            (
                "Please look at ticket {number} in the next few days.",
                "We would like an answer before {day}, if possible.",
                "Can somebody check the printer this week?",
                "{name} needs the report by the end of the week.",
            ),
            (
                "The shop page fails for some customers, we need a fix today.",
                "I travel to {city} tonight and my booking is gone, please hurry.",
                "Payroll must be sent this afternoon and the export is broken.",
                "Our demo is in three hours and the login does not work.",
            ),
            (
                "There is smoke in the server room, call the fire brigade!",
                "All payments are down in every country and we lose thousands a minute.",
                "Gas smell in the building, people feel dizzy.",
                "Attackers are inside the database right now and are deleting it.",
            ),
        ),
    ),
    "satisfaction": (
        (
            "furious, terrible experience",
            "disappointed",
            "neutral, neither good nor bad",
            "satisfied",
            "delighted, could not be better",
        ),
        "How does the customer feel?",
        (
            (
                "Worst purchase of my life, the {thing} is rubbish and you lied to me.",
                "I am disgusted by how you treated {name}.",
                "Never again. This {thing} is an insult.",
                "Absolutely awful service in {city}, I hate this company.",
            ),
            (
                "The {thing} is not quite what I had hoped for.",
                "A pity that the colour faded so soon.",
                "I expected better from a {thing} at {sum}.",
                "Sadly the staff in {city} had little time for us.",
            ),
            (
                "I bought the {thing} on {day}.",
                "The {thing} came in a box with a manual.",
                "Order {number} has three items.",
                "It is a {thing}, it does what it says.",
            ),
            (
                "The {thing} works well, thank you.",
                "Good value for {sum}, I would buy it again.",
                "Nice and helpful staff in {city}.",
                "{name} likes the {thing}, it fits.",
            ),
            (
                "I love this {thing}, it is the best I ever had!",
                "Amazing! The team in {city} made our day.",
                "Perfect in every way, {name} is over the moon.",
                "Outstanding, ten out of ten, I tell everyone about it!",
            ),
        ),
    ),
    "length_of_stay": (
        ("a few hours", "one or two nights", "about a week", "a month or longer"),
        "How long is the stay?",
        (
            (
                "We only stop in {city} for lunch.",
                "A short visit between two trains.",
                "I am back by the evening.",
                "Just the afternoon at the museum.",
            ),
            (
                "A weekend in {city} with {name}.",
                "I leave on Friday and return on Sunday.",
                "We need the room for tonight only.",
                "Two nights at the hotel, please.",
            ),
            (
                "Seven days at the sea.",
                "We booked from Saturday to Saturday.",
                "{name} has a week off and goes to {city}.",
                "Six nights in a mountain hut.",
            ),
            (
                "I move to {city} for a semester.",
                "A flat for the whole summer.",
                "The project keeps us in {city} for half a year.",
                "She rents it for ninety days.",
            ),
        ),
    ),
}
