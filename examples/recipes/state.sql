-- The state that the recipes change with each event: the last event of each order.
CREATE TABLE recipe_orders (name text PRIMARY KEY, status text NOT NULL);
