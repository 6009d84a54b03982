"""Training data of a vision-language judge: clips, judges' questions with their answers, prompt trees."""
