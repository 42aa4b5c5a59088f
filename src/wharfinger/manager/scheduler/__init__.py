"""Which kernel goes to which agent: the queue, the predicates, the placement, the binding."""
