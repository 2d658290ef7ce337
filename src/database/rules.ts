/** Error messages for rules of the schema, by the name of the constraint or unique index. */
const sentences: Record<string, string> = {
  username_is_taken: 'This username is taken.',
  username_is_reserved:
    'This username belonged to another account, which was renamed or deleted less than 90 days ago. Choose another.',
  username_is_well_formed:
    'A username has at most 39 characters: lower-case letters and digits, with single . _ or - between them.',
  display_name_max_100_characters: 'A name has at most 100 characters.',
  display_name_is_plain_text: 'A name must not contain control characters.',
  email_is_taken: 'This email belongs to another account.',
  email_is_an_address_max_254_characters: 'Enter a valid email address of at most 254 characters.',
  invitation_email_is_an_address_max_254_characters: 'Enter a valid email address of at most 254 characters.',
  application_name_is_plain_text: 'An application’s name must not contain control characters.',
  application_description_is_plain_text: 'An application’s description must not contain control characters.',
  application_website_is_plain_text: 'An application’s website must not contain control characters.',
  application_website_has_no_userinfo: 'An application’s website must not contain a username or password.',
  group_name_is_taken: 'A group with this name already exists.',
  group_name_is_reserved:
    'This name belonged to another group, and its old URLs may still be in use. Choose another name.',
  group_name_is_well_formed:
    'A group’s name has at most 64 characters: lower-case letters and digits, with single . _ or - between them.',
  group_name_is_not_the_first_segment_of_another_url:
    'A group cannot have this name, because other URLs of svc start with it.',
  repository_name_is_taken: 'The group already has a repository with this name.',
  repository_name_is_of_a_deleted_one:
    'A deleted repository of the group has this name. Restore it, or choose another name.',
  repository_name_is_reserved:
    'Another repository of the group had this name, and its old URLs still lead there. Choose another name.',
  repository_name_is_well_formed:
    'A repository’s name has at most 100 characters: lower-case letters and digits, with single . _ or - between them.',
  repository_description_max_350_characters: 'A repository’s description has at most 350 characters.',
  repository_description_is_plain_text: 'A repository’s description must not contain control characters.',
  admin_token_is_for_all_repositories: 'An admin token is for all repositories.',
  personal_token_name_is_taken: 'The account already has a token with this name.',
  personal_token_name_1_to_100_characters: 'A token’s name has 1 to 100 characters.',
  personal_token_name_is_plain_text: 'A token’s name must not contain control characters.',
  deploy_token_name_is_taken: 'The group already has a deploy token with this name.',
  deploy_token_name_1_to_100_characters: 'A token’s name has 1 to 100 characters.',
  deploy_token_name_is_plain_text: 'A token’s name must not contain control characters.',
}

/**
 * Returns the message for a broken rule of the schema. Constraints are named after their rules, so the default message
 * contains the name.
 */
export function describeRule(constraint: string): string {
  return sentences[constraint] ?? `This breaks a rule: ${constraint.replaceAll('_', ' ')}.`
}
