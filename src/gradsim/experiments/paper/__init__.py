"""The paper's tables and figures that compare methods, models and cues, and the page that shows all of them."""
