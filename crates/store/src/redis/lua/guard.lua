local fine, answer = pcall(decide)
if fine then return answer end
return { 9, tostring(answer) }
