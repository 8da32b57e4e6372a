-- Events without content.

-- name: emptied_after
SELECT seq FROM events WHERE workspace_id = :ws AND seq > :after AND body IS NULL ORDER BY seq LIMIT :limit
