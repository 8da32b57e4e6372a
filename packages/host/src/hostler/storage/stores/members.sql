-- Members of workspaces. A person is found in all workspaces by subject or address when it signs in.

-- name: insert
INSERT INTO members (workspace_id, member_id, subject, email, name, role, source, groups, created_at, created_by,
                     signed_in_at)
VALUES (:workspace_id, :member_id, :subject, :email, :name, :role, :source, :groups, :created_at, :created_by,
        :signed_in_at)

-- name: find
SELECT * FROM members WHERE workspace_id = :workspace_id AND member_id = :member_id

-- name: page
-- Members that were not removed, invited people among them.
SELECT * FROM members WHERE workspace_id = :workspace_id AND member_id > :after AND removed_at IS NULL
ORDER BY member_id LIMIT :limit

-- name: count
SELECT count(*) AS count FROM members WHERE workspace_id = :workspace_id AND removed_at IS NULL

-- name: invited
SELECT * FROM members
WHERE workspace_id = :workspace_id AND email = :email AND subject IS NULL AND removed_at IS NULL

-- name: with_email
-- Members, and people who are invited, with this address.
SELECT * FROM members WHERE workspace_id = :workspace_id AND email = :email AND removed_at IS NULL
ORDER BY member_id LIMIT :limit

-- name: of_subject
-- All memberships of one person.
SELECT * FROM members WHERE subject = :subject AND removed_at IS NULL ORDER BY workspace_id LIMIT :limit

-- name: invitations
-- All invitations of one address.
SELECT * FROM members WHERE email = :email AND subject IS NULL AND removed_at IS NULL
ORDER BY workspace_id LIMIT :limit

-- name: names
-- The names of subjects, of removed members too; the latest last.
SELECT subject, name FROM members WHERE workspace_id = :workspace_id AND subject = :subject
ORDER BY created_at, member_id

-- name: sign_in
UPDATE members
SET subject = :subject, email = :email, name = :name, role = :role, groups = :groups, signed_in_at = :now
WHERE workspace_id = :workspace_id AND member_id = :member_id

-- name: set_role
UPDATE members SET role = :role, source = 'invited'
WHERE workspace_id = :workspace_id AND member_id = :member_id AND removed_at IS NULL

-- name: remove
-- The row stays, since facts name its subject; of the person it keeps the name alone.
UPDATE members SET removed_at = :now, email = NULL, groups = '[]'
WHERE workspace_id = :workspace_id AND member_id = :member_id AND removed_at IS NULL
