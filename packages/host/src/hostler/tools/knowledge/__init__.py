"""Knowledge bases behind a port; none is shipped yet."""
