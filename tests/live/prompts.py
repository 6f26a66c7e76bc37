"""The prompts of the live tests: short and unambiguous for any model."""

EDIT = (
    "In greet.py, change 'Hello ' to 'Hi '. Call the tool edit_file now, in your very next message, with just this "
    "one edit: old is 'Hello ' with its quotes, new is 'Hi ' with its quotes. The file is exactly:\n\n"
)
ASK = (
    "Call the tool ask_user now, in your very next message, with the question: Which language? "
    "Answer with nothing else. Once you have my answer, reply with the single word ok."
)
LONG = (
    "Do not call any tool. Write the numbers from one to three hundred as English words, all of them, separated by "
    "commas. Begin at once and leave nothing out."
)
SHORT = "Never mind that. Do not call any tool; answer with the single word ok."
AGAIN = "You did not do what I asked. Do exactly this and nothing else:\n\n"
DENIAL = (
    "No: two things.\n\n1. Leave the greeting as it is\n2. <b>keep</b> the name\n\n"
    "Do not call any tool now; answer with the single word ok."
)
ANSWER = "French, and nothing else"
