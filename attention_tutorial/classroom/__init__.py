"""Assignments for a class: one master each, a variant for every student, checks that diagnose, hidden ones that decide.

What a student's notebook needs is `visible`, which imports nothing but the package. The rest is for the teacher.
"""

from .assignment import Assignment, Check, Task, Variant, load, variant_for

__all__ = ["Assignment", "Check", "Task", "Variant", "load", "variant_for"]
