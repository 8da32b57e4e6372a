-- Items of clients. They are values of storage: the owner is `store:`, then the labels of the namespace, each between
-- periods. No plugin has such a key.

-- name: get
SELECT owner, key, value, updated_at FROM storage WHERE workspace_id = :ws AND owner = :owner AND key = :key

-- name: page
-- Items of namespaces in a range, latest change first.
SELECT owner, key, value, updated_at FROM storage
WHERE workspace_id = :ws AND owner >= :low AND owner < :high
ORDER BY updated_at DESC, owner, key LIMIT :limit OFFSET :offset

-- name: namespaces
SELECT owner FROM storage
WHERE workspace_id = :ws AND owner >= :low AND owner < :high GROUP BY owner ORDER BY owner LIMIT :limit

-- name: named
-- Items whose namespace has a label, or whose key is the same text.
SELECT owner, key FROM storage
WHERE workspace_id = :ws AND owner >= :low AND owner < :high
  AND (key = :name OR replace(owner, CAST(:label AS text), '') <> owner)
LIMIT :limit
