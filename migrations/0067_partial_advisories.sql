-- Partial advisories of upstreams have an invented title and date in the documents of earlier releases. Each document is
-- rendered again, at the next request or by the job. In steps, because requests write these rows.
do $$
begin
  loop
    update mirrored_document set due_at = now()
     where ctid = any (array(select ctid from mirrored_document where due_at > now() limit 1000 for no key update skip locked));
    exit when not found;
    commit;
  end loop;
end
$$;
