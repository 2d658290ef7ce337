-- An exchange looks for the trusted publishers of an issuer in one repository, and for one of the issuer that an operator has
-- added anywhere. A public issuer has very many.
create index trusted_publisher_of_issuer_in_repository on trusted_publisher (issuer, repository_id) where removed_at is null;
create index trusted_publisher_of_issuer_by_rights on trusted_publisher (issuer, reaches_private_hosts)
  where removed_at is null;
drop index trusted_publisher_of_issuer;
