-- Partial advisories of upstreams have an invented title and date in the documents of earlier releases. Each document is
-- rendered again, at the next request or by the job.
update mirrored_document set due_at = now() where due_at > now();
