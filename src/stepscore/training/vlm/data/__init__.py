"""What a vision-language judge is trained on: clips, judges' questions with their answers, prompt trees."""
