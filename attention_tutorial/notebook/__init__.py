"""What a chapter needs of its notebook: the set-up, controls, claims, and sources shown in the page."""

from .claims import Claim, claim
from .display import Source, rounded, show_source
from .session import controls, setup

__all__ = ["Claim", "Source", "claim", "controls", "rounded", "setup", "show_source"]
