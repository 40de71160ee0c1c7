"""A local page on which a user clicks what is known about a recording: `pick_choices`."""

from gradsim.footage.picking.pick import pick_choices

__all__ = ["pick_choices"]
