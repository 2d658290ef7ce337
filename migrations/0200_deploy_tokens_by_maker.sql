-- The deploy tokens that an account made: they can be revoked together.
create index deploy_token_of_maker on deploy_token (made_by) where revoked_at is null;
