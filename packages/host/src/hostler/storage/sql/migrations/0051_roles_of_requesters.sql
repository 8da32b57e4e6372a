-- The roles that the key or member had who sent an event, a JSON list; NULL: none. `action_actors` of agents name them.
ALTER TABLE events ADD COLUMN requester_roles text;
