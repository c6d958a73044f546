"""Assignments for a class: one master each, a variant for every student, checks that diagnose, hidden ones that decide.

All of this is for the teacher. It uses the book through `attention_tutorial.exercises` alone; what a student's notebook
needs is there too, in `attention_tutorial.exercises.visible`.
"""

from .assignment import Assignment, Check, Task, Variant, load, variant_for

__all__ = ["Assignment", "Check", "Task", "Variant", "load", "variant_for"]
