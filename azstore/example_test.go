package azstore_test

import (
	"fmt"

	"github.com/blobtx/blobtx/azstore"
)

func ExampleLifecyclePolicy() {
	policy, err := azstore.LifecyclePolicy(&azstore.LifecycleOptions{Container: "documents", Days: 14})
	if err != nil {
		panic(err)
	}
	fmt.Println(string(policy))
	// Output:
	// {
	//   "rules": [
	//     {
	//       "enabled": true,
	//       "name": "blobtx-pending",
	//       "type": "Lifecycle",
	//       "definition": {
	//         "actions": {
	//           "baseBlob": {
	//             "delete": {
	//               "daysAfterCreationGreaterThan": 14
	//             }
	//           }
	//         },
	//         "filters": {
	//           "blobTypes": [
	//             "blockBlob"
	//           ],
	//           "prefixMatch": [
	//             "documents/"
	//           ],
	//           "blobIndexMatch": [
	//             {
	//               "name": "state",
	//               "op": "==",
	//               "value": "pending"
	//             }
	//           ]
	//         }
	//       }
	//     }
	//   ]
	// }
}
