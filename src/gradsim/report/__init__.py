"""Results for people: HTML pages of estimates and controls, and the HTML of objects in notebooks."""

from gradsim.report import notebook as notebook  # registers the HTML of objects
