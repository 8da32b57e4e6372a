-- Server tools: the approved definition and the one seen last.

-- name: of_owner
SELECT tool, digest, definition, seen_digest, seen_definition FROM tool_pins
WHERE workspace_id = :workspace_id AND owner = :owner ORDER BY tool LIMIT :limit

-- name: put
INSERT INTO tool_pins (workspace_id, owner, tool, digest, definition, seen_digest, seen_definition,
    approved_by, approved_at, seen_at)
VALUES (:workspace_id, :owner, :tool, :digest, :definition, :seen_digest, :seen_definition,
    :approved_by, :approved_at, :now)
ON CONFLICT (workspace_id, owner, tool) DO UPDATE SET seen_digest = excluded.seen_digest,
    seen_definition = excluded.seen_definition, seen_at = excluded.seen_at

-- name: approve
UPDATE tool_pins SET digest = seen_digest, definition = seen_definition, approved_by = :actor, approved_at = :now
WHERE workspace_id = :workspace_id AND owner = :owner AND tool = :tool AND seen_digest = :digest
