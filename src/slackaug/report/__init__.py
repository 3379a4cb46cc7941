"""What a policy and a run look like: figures as SVG, and the page that shows them."""
