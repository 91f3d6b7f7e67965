-- Try the commands of all scripts, in forms that change nothing.
-- KEYS  a key of the slot, or none
-- ARGV  1 PUBLISH
--       2 a channel that nobody listens to
--       3 a key that nobody uses
--       4.. commands, in words: K is that key, M one that is not there, S the key where the command fails on it and
--           would do something without it
-- RETURN  for each command, and at last for the first argument, what the server has against it, or ''
local key, answers = ARGV[3], {}
local function try(...)
  local r = redis.pcall(...)
  answers[#answers + 1] = type(r) == 'table' and r.err or ''
end
-- A string makes all commands for other types fail, and soon ends if it may not be deleted.
local set = redis.pcall('set', key, 'x', 'px', 1000, 'nx')
-- Where the user may not use the key, nothing else will touch it either.
local made = type(set) == 'table' and (set.ok ~= nil or string.find(set.err, 'access') ~= nil)
local names = {K = key, S = key, M = key .. ':missing'}
for i = 4, #ARGV do
  local words, skip = {}, false
  for w in string.gmatch(ARGV[i], '%S+') do
    skip = skip or w == 'S' and not made
    words[#words + 1] = names[w] or w
  end
  if skip then answers[#answers + 1] = '' else try(unpack(words)) end
end
redis.pcall('del', key)
try(ARGV[1], ARGV[2], '0')
return answers
