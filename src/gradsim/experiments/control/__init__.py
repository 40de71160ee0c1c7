"""Control from images: a walker, a gear and a cloth, each controlled to reach a goal given as one image."""
