"""How stores on other machines are asked: within limits of time, bytes and requests, whatever they answer."""
