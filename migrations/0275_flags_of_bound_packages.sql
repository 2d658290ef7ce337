-- The statements that bind names to upstreams apply the flags of malware. What the previous release binds gets them when the
-- summary of the upstream is read the next time.
drop trigger new_package_is_flagged on mirrored_package;
drop trigger bound_package_is_flagged on mirrored_package;
drop function flag_bound_package();
