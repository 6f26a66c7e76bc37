"""Turns: the loop, the decision ladder, the gate, interventions and prompts."""
